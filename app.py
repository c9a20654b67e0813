"""The CDK app: `cdk deploy -c stage=<stage>`, with `-c kyc_url=<address>` where the settings name none.

`-c webhook=http-api` is for an account in which public function URLs are forbidden.
`-c` also sets `page_address`, `notice_address`, `finance_address` and `runbooks`.
"""

from infra.own import build, main

__all__ = ["build"]

if __name__ == "__main__":
    main()

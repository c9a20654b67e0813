"""Sets the environment variables of tools and of functions, which read them at import."""

import os
import shutil
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import psutil

NOW = datetime(2026, 11, 20, 12, 0, 0, 123000, tzinfo=UTC)

os.environ |= {
    "CDK_VALIDATION": "false",  # `make templates` does it: a quarter of a synthesis
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "eu-west-1",
    "AWS_REGION": "eu-west-1",
    "AWS_LAMBDA_FUNCTION_NAME": "under-test",
    "POWERTOOLS_LOG_LEVEL": "INFO",
    "POWERTOOLS_SERVICE_NAME": "settlement-under-test",
    "POWERTOOLS_METRICS_DISABLED": "false",  # the command would disable them for the whole process
    "POWERTOOLS_TRACE_DISABLED": "true",
    "TABLE_NAME": "replaced-by-the-store-fixture",
    "PAGER": ('{"runbook":"docs/runbooks/limbo.md","stack":null,"again_after_seconds":1800}'),
    "ROW_KEYS": "1:the-key-of-the-tests",
    "EVENT_BUS": "settlement-under-test",
    "PAGE_TOPIC": "arn:aws:sns:eu-west-1:123456789012:page",
    "INFORMATION_TOPIC": "arn:aws:sns:eu-west-1:123456789012:information",
    "JOURNAL_BUCKET": "sealed-journal-under-test",
    "STARTS_PER_SECOND": "inf",
    "RECOVER_STALLED": "arn:aws:lambda:eu-west-1:123456789012:function:RecoverStalled",
    "PUBLISH_EVENTS": "arn:aws:lambda:eu-west-1:123456789012:function:PublishEvents",
    "OUTCOME_BUS": "settlement-under-test-outcomes",
    "SWEEPS": "https://sqs.invalid/123456789012/sweeps",
    "SWEEPS_PUT_ASIDE": "https://sqs.invalid/123456789012/sweeps-put-aside",
    "EVENTS_PUT_ASIDE": "https://sqs.invalid/123456789012/events-put-aside",
    "VERIFY_KYC": "arn:aws:lambda:eu-west-1:123456789012:function:VerifyKyc",
    "KYC_SIGNING_SECRET": "arn:aws:secretsmanager:eu-west-1:123456789012:secret:signing-AbCdEf",
    "SETTLEMENT_MACHINE": "arn:aws:states:eu-west-1:123456789012:stateMachine:SettlementStandard",
    "EXPRESS_MACHINE": "arn:aws:states:eu-west-1:123456789012:stateMachine:SettlementExpress",
    "COMPENSATION_MACHINE": "arn:aws:states:eu-west-1:123456789012:stateMachine:Compensation",
    "KYC": (
        '{"endpoint":{"url":"https://kyc.invalid","provider":"verifications","dataset":"default",'
        '"connect_timeout_seconds":1,"read_timeout_seconds":3},'
        '"breaker":{"failures":5,"within_seconds":60,"recovery_seconds":30},"review_seconds":86400,'
        '"secret_id":"arn:aws:secretsmanager:eu-west-1:123456789012:secret:credentials-AbCdEf",'
        '"runbook":"docs/runbooks/kyc-outage.md"}'
    ),
    "FOLLOW_PAYOUTS": "arn:aws:lambda:eu-west-1:123456789012:function:FollowPayouts",
    "BANK_SIGNING_SECRET": "arn:aws:secretsmanager:eu-west-1:123456789012:secret:bank-events-AbCdEf",
    "PAYOUTS": (
        '{"limits":{"payout":{"EUR":500000},"day":{"EUR":900000},"rest_seconds":86400},'
        '"accounts":["DE89370400440532013000"],'
        '"bank":{"url":"https://bank.invalid","name":"a-bank","window_seconds":86400,'
        '"refusals":["account_closed"],"connect_timeout_seconds":1,"read_timeout_seconds":9},'
        '"breaker":{"failures":5,"within_seconds":60,"recovery_seconds":30},'
        '"secret_id":"arn:aws:secretsmanager:eu-west-1:123456789012:secret:bank-AbCdEf"}'
    ),
    "STAGE_CONFIG": (
        '{"currencies":{"CO2":3,"EUR":2,"JPY":0,"KWD":3,"POINTS":0,"USD":2},'
        '"highest_balances":{"CO2":100000000,"EUR":100000000},'
        '"fee":"client","fee_basis_points":100,"fee_ceiling_basis_points":9999,'
        '"deadline_seconds":900,"recover_after_seconds":30}'
    ),
}
_MEMORY, _MEMORY_NEEDED = "/dev/shm", 8 * 2**30
if (
    sys.platform == "linux"
    and "PYTEST_VERSION" in os.environ  # a benchmark writes to the disk
    and "TMPDIR" not in os.environ
    and os.path.isdir(_MEMORY)
    and min(shutil.disk_usage(_MEMORY).free, psutil.virtual_memory().available) > _MEMORY_NEEDED
    and not os.statvfs(_MEMORY).f_flag & os.ST_NOEXEC
):
    # Syntheses and databases are thousands of files, slow on a disk.
    os.environ["TMPDIR"] = tempfile.tempdir = _MEMORY
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # the project's Node
for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL"):
    os.environ.pop(name, None)

from collections.abc import Iterable

NAMESPACE = "urn:iso:std:iso:20022:tech:xsd:pain.002.001."
CREATED = "2026-11-30T09:15:00+01:00"


def report(
    reference: str,
    *,
    group: str = "",
    payment: str = "",
    transaction: str = "",
    reasons: Iterable[str] = (),
    own: Iterable[str] = (),
    end_to_end: str | None = None,
    created: str = CREATED,
    version: str = "14",
) -> bytes:
    told = "".join(
        f"<StsRsnInf><Orgtr><Nm>A Bank</Nm></Orgtr><Rsn><{kind}>{code}</{kind}></Rsn>"
        "<AddtlInf>see &lt;www.example&gt;</AddtlInf></StsRsnInf>"
        for kind, codes in (("Cd", reasons), ("Prtry", own))
        for code in codes
    )
    at_payment, at_transaction = payment or transaction, bool(transaction)
    name = reference if end_to_end is None else end_to_end
    inner = (
        f"<TxInfAndSts><StsId>S-1</StsId><OrgnlInstrId>I-1</OrgnlInstrId>{element('OrgnlEndToEndId', name)}"
        f"<TxSts>\n{transaction} </TxSts>{told}<AcctSvcrRef>A-1</AcctSvcrRef><OrgnlTxRef><Amt>"
        '<InstdAmt Ccy="EUR">48.20</InstdAmt></Amt></OrgnlTxRef></TxInfAndSts>'
    )
    middle = (
        f"<OrgnlPmtInfAndSts><OrgnlPmtInfId>{reference}</OrgnlPmtInfId>{element('PmtInfSts', payment)}"
        f"{'' if at_transaction else told}{inner if at_transaction else ''}</OrgnlPmtInfAndSts>"
    )
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<Document xmlns="{NAMESPACE}{version}"><CstmrPmtStsRpt>'
        f"<GrpHdr><MsgId>R-1</MsgId><CreDtTm>{created}</CreDtTm><InitgPty><Nm>Market</Nm></InitgPty></GrpHdr>"
        f"<OrgnlGrpInfAndSts><OrgnlMsgId>{reference}</OrgnlMsgId><OrgnlMsgNmId>pain.001.001.09</OrgnlMsgNmId>"
        f"{element('GrpSts', group)}{'' if at_payment else told}</OrgnlGrpInfAndSts>"
        f"{middle if at_payment else ''}</CstmrPmtStsRpt></Document>"
    ).encode()


def element(name: str, text: str) -> str:
    return f"<{name}>{text}</{name}>" if text else ""

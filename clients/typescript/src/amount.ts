const DECIMALS_MAX = 18;

/** Return a decimal string as an integer of 10^-18 units, which compares and subtracts without rounding. */
export function scaled(amount: string): bigint {
  const [whole = "", decimals = ""] = amount.split(".");
  return BigInt(whole + decimals.padEnd(DECIMALS_MAX, "0"));
}

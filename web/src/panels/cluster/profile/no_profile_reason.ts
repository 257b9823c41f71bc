import type { Receipt } from "../receipts/receipts.ts";

/** The reason why there is no profile. */
export type NoProfileReason =
  /** The scheduler does not report what it sends. */
  | "unreported"
  /** The account refuses profiles now. */
  | "refused"
  /** The account refused them while the cluster reported. */
  | "dropped"
  /** The cluster did not send them: profiles were off, or the account refused them then. */
  | "withheld"
  /** Windows are stored, but none begins in the chosen part. */
  | "other-part"
  /** Windows were stored and are stored no longer. */
  | "deleted"
  /** Profiles are off, or no task ran for a whole window. */
  | "off";

/** Returns the reason why a profile is null. */
export function noProfileReason(
  receipt: Omit<Receipt, "class"> | undefined,
  isPart: boolean,
): NoProfileReason {
  if (!receipt || receipt.sent === null) return receipt?.accepted === false ? "refused" : "unreported";
  const dropped = receipt.dropped ?? 0;
  if (receipt.sent > dropped) return isPart ? "other-part" : "deleted";
  if (!receipt.accepted) return "refused";
  if (dropped > 0) return "dropped";
  return (receipt.withheld ?? 0) > 0 ? "withheld" : "off";
}

import type { DataClass, ReceiptFieldsFragment } from "@/data/gql/graphql.ts";
import { count, counted } from "@/format/number.ts";

export type Receipt = ReceiptFieldsFragment["privacy"]["classes"][number];

/** The words for the items of a class of data. */
export interface ItemWords {
  one: string;
  many: string;
  /** The setting that withholds them. Null if only the account can refuse them. */
  setting: string | null;
}

/** A reason why a cluster has no items of a class, as a heading and a text. */
export interface Absence {
  /** `none` means that there were none to send. With the others, there may have been some. */
  kind: "none" | "refused" | "withheld" | "deleted" | "unknown";
  title: string;
  text: string;
}

export function receiptOf(receipts: ReceiptFieldsFragment, name: DataClass): Receipt | undefined {
  return receipts.privacy.classes.find((receipt) => receipt.class === name);
}

function capital(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

/** Returns the reason why the server has no items of the class. */
export function absence(receipt: Receipt | undefined, words: ItemWords): Absence {
  const { one, many, setting } = words;
  const sent = receipt?.sent ?? null;
  const withheld = receipt?.withheld ?? 0;
  if (receipt && !receipt.accepted) {
    const dropped = receipt.dropped ?? 0;
    const parts = [
      withheld > 0 && `The cluster withheld ${counted(withheld, one, many)}.`,
      dropped > 0 && `The server discarded ${counted(dropped, one, many)} on arrival.`,
      "Owners and admins change what the account accepts.",
    ];
    return {
      kind: "refused",
      title: `The account refuses ${many}`,
      text: parts.filter(Boolean).join(" "),
    };
  }
  if (withheld > 0) {
    return {
      kind: "withheld",
      title: `The cluster withheld ${counted(withheld, one, many)}`,
      text:
        setting === null
          ? "The account refused them at that time."
          : `Its setting ${setting} was off, or the account refused them at that time.`,
    };
  }
  if (sent === null) {
    return {
      kind: "unknown",
      title: `No ${one} was reported`,
      text: `The cluster did not report whether it withheld any, so it is unknown whether there were ${many}.`,
    };
  }
  if (sent > 0) {
    return {
      kind: "deleted",
      title: `${capital(many)} are no longer stored`,
      text: `The cluster sent ${count(sent)}. They were deleted, or are older than the account keeps them.`,
    };
  }
  return { kind: "none", title: `There was no ${one}`, text: "" };
}

/** Returns the items that were sent or observed and are missing, as sentences. */
export function missing(receipt: Receipt | undefined, discarded: number, words: ItemWords): string[] {
  const { one, many } = words;
  const of = (value: number) => counted(value, one, many);
  const found: string[] = [];
  if (discarded > 0)
    found.push(`The cluster discarded ${of(discarded)}, because there were too many at once.`);
  if (receipt?.withheld) found.push(`It withheld ${of(receipt.withheld)}.`);
  if (receipt?.dropped) found.push(`The server discarded ${of(receipt.dropped)} that the account refused.`);
  return found;
}

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { byteExponent, byteRate, bytes, bytesIn } from "./bytes.ts";
import { duration, runningTime, threadTime, threadTimeInWords, threadTimes } from "./duration.ts";
import { costText, money } from "./money.ts";
import { count, counted, share, shortCount, signed, threeDigits } from "./number.ts";
import { ago, clock, clockSeconds, day, dayAndClock, inSentence, period, shortDayAndClock } from "./time.ts";

const plain = (text: string) => text.replaceAll("\u00a0", " ");

describe("numbers", () => {
  it.each([
    [0, "0"],
    [999, "999"],
    [41_266, "41,266"],
    [9_007_199_254_740_991, "9,007,199,254,740,991"],
  ])("writes %d whole", (value, text) => expect(count(value)).toBe(text));

  it.each([
    [9_999, "9,999"],
    [14_200, "14.2k"],
    [35_300_000, "35.3 M"],
    [1_500_000_000, "1.5 G"],
  ])("shortens %d", (value, text) => expect(plain(shortCount(value))).toBe(text));

  it.each([
    [0, "0 %"],
    [0.0001, "< 1 %"],
    [0.41, "41 %"],
    [0.996, "> 99 %"],
    [1, "100 %"],
    [1.25, "125 %"],
  ])("writes the share %d", (value, text) => expect(plain(share(value))).toBe(text));

  it.each([
    [5, "5"],
    [5.126, "5.13"],
    [51.26, "51.3"],
    [512.6, "513"],
    [100, "100"],
    [120.4, "120"],
  ])("keeps three digits of %d", (value, text) => expect(threeDigits(value)).toBe(text));

  it("counts nouns", () => {
    expect(plain(counted(1, "worker"))).toBe("1 worker");
    expect(plain(counted(1288, "task"))).toBe("1,288 tasks");
  });

  it("signs differences, and none of them as minus zero", () => {
    expect(plain(signed(16_920, threadTimes(54_000)))).toBe("+4.7 h");
    expect(signed(-3, count)).toBe("−3");
    expect(signed(-0.4, count)).toBe("±0");
  });

  it("writes a difference below the last digit as plus or minus zero, not as two signs", () => {
    const signs = (value: number, format: (size: number) => string) => plain(signed(value, format));
    expect(signs(-100, threadTimes(54_000))).toBe("±0.0 h");
    expect(signs(100, threadTimes(5_000_000))).toBe("±0 h");
    expect(signs(-0.001, (size) => money(size, "USD"))).toBe("±$0.00");
    expect(signs(0.0001, duration)).toBe("±0 ms");
  });

  it("never writes a share above 0 as 0", () => {
    fc.assert(
      fc.property(
        fc.double({ min: Number.MIN_VALUE, max: 1, noNaN: true }),
        (value) => share(value) !== "0\u00a0%",
      ),
    );
  });
});

describe("durations", () => {
  it.each([
    [0, "0 s"],
    [0.0004, "< 1 ms"],
    [0.34, "340 ms"],
    [0.9996, "1.0 s"],
    [4.24, "4.2 s"],
    [9.96, "10 s"],
    [59.4, "59 s"],
    [59.6, "1 m 00 s"],
    [126, "2 m 06 s"],
    [2856, "47 m 36 s"],
    [3599.6, "1 h 00 m"],
    [7260, "2 h 01 m"],
    [86_399, "1 d 00 h"],
    [273_600, "3 d 04 h"],
    [-126, "−2 m 06 s"],
  ])("writes %d s", (value, text) => expect(plain(duration(value))).toBe(text));

  it.each([
    [0, "0 s"],
    [0.2, "1 s"],
    [3.24, "4 s"],
    [9.2, "10 s"],
    [11_520, "3 h 12 m"],
  ])("writes %d s that still run", (value, text) => expect(plain(runningTime(value))).toBe(text));

  it.each([
    [54_000, "15.0 h"],
    [31.04 * 60, "31.0 min"],
    [4.2, "4.2 s"],
    [0.012, "12.0 ms"],
    [0, "0.0 s"],
    [74_953 * 3600, "74,953 h"],
  ])("writes %d thread-seconds", (value, text) => expect(plain(threadTime(value))).toBe(text));

  it("keeps the unit of a column", () => {
    const format = threadTimes(54_000);
    expect([1800, 30, 0].map((value) => plain(format(value)))).toEqual(["0.5 h", "< 0.1 h", "0.0 h"]);
  });

  it("has the same decimals for times that stand together: none from 1,000 on", () => {
    const together = (largest: number, values: number[]) =>
      values.map((hours) => plain(threadTimes(largest * 3600)(hours * 3600)));
    expect(together(38_362, [38_362, 9455.4, 233.2, 0.4, 0])).toEqual([
      "38,362 h",
      "9,455 h",
      "233 h",
      "< 1 h",
      "0 h",
    ]);
    expect(together(999.94, [999.94, 46.9, 0.04])).toEqual(["999.9 h", "46.9 h", "< 0.1 h"]);
    expect(together(999.95, [999.95, 46.9])).toEqual(["1,000 h", "47 h"]);
  });

  it("names thread time in words", () => {
    expect(plain(threadTimeInWords(271_440))).toBe("75.4 thread-hours");
    expect(plain(threadTimeInWords(12.34))).toBe("12.3 thread-seconds");
  });
});

describe("bytes", () => {
  it.each([
    [0, "0 B"],
    [1023, "1023 B"],
    [1024, "1 KiB"],
    [5.1 * 1024 ** 3, "5.1 GiB"],
    [384 * 1024 ** 3, "384 GiB"],
    [1023.6 * 1024 ** 2, "1 GiB"],
    [532 * 1024 ** 4, "532 TiB"],
  ])("writes %d B", (value, text) => expect(plain(bytes(value))).toBe(text));

  it("writes rates, and values in the unit of an axis", () => {
    expect(plain(byteRate(12 * 1024 ** 2))).toBe("12 MiB/s");
    expect(bytesIn(512 * 1024 ** 2, byteExponent(2 * 1024 ** 3))).toBe("0.5");
  });
});

describe("money", () => {
  it.each([
    [3.77, "USD", "$3.77"],
    [0, "USD", "$0.00"],
    [0.001, "USD", "< $0.01"],
    [871.6, "EUR", "€871.60"],
    [1200, "JPY", "¥1,200"],
  ])("writes %d %s", (amount, currency, text) => expect(plain(money(amount, currency))).toBe(text));

  it("adds amounts of one currency only, and tells of estimates", () => {
    expect(costText([])).toBeNull();
    expect(
      costText([
        { amount: 1.5, currency: "USD", basis: "RATE_CARD" },
        { amount: 2.27, currency: "USD", basis: "ESTIMATED" },
        { amount: 1, currency: "EUR", basis: "RATE_CARD" },
      ]),
    ).toEqual({ text: "$3.77 + €1.00", isEstimated: true });
  });
});

describe("times", () => {
  const now = "2026-11-24T14:32:00Z";
  it("writes clocks in the chosen zone", () => {
    expect(clock("2026-11-24T02:37:44Z")).toBe("02:37");
    expect(clockSeconds("2026-11-24T02:37:44Z")).toBe("02:37:44");
    expect(clockSeconds("2026-11-24T00:00:01Z")).toBe("00:00:01");
    expect(clock("2026-11-24T02:37:44Z", "Asia/Tokyo")).toBe("11:37");
  });
  it("writes days, with the year if it is another one", () => {
    expect(day("2026-11-24T02:00:00Z", "UTC", now)).toBe("Tue 24 Nov");
    expect(day("2025-03-03T02:00:00Z", "UTC", now)).toBe("Mon 3 Mar 2025");
  });
  it("writes recent days by name, by the zone's midnight", () => {
    expect(dayAndClock("2026-11-24T02:00:00Z", "UTC", now)).toBe("Today 02:00");
    expect(dayAndClock("2026-11-23T23:59:00Z", "UTC", now)).toBe("Yesterday 23:59");
    expect(dayAndClock("2026-11-23T23:59:00Z", "Asia/Tokyo", now)).toBe("Today 08:59");
    expect(dayAndClock("2026-11-20T08:00:00Z", "UTC", now)).toBe("Fri 20 Nov, 08:00");
    expect(inSentence("Today 02:00")).toBe("today 02:00");
    expect(inSentence("Yesterday 23:59")).toBe("yesterday 23:59");
    expect(inSentence("Fri 20 Nov, 08:00")).toBe("Fri 20 Nov, 08:00");
  });
  it("writes days of a column by the weekday, until this could be another week's", () => {
    expect(shortDayAndClock("2026-11-24T02:00:00Z", "UTC", now)).toBe("Today 02:00");
    expect(shortDayAndClock("2026-11-23T23:59:00Z", "UTC", now)).toBe("Mon 23:59");
    expect(shortDayAndClock("2026-11-18T00:00:00Z", "UTC", now)).toBe("Wed 00:00");
    expect(shortDayAndClock("2026-11-17T23:59:00Z", "UTC", now)).toBe("17 Nov 23:59");
    expect(shortDayAndClock("2025-11-20T08:00:00Z", "UTC", now)).toBe("20 Nov 2025 08:00");
    expect(shortDayAndClock("2026-11-25T08:00:00Z", "UTC", now)).toBe("25 Nov 08:00");
  });
  it("writes periods with one day if they have one", () => {
    expect(period("2026-11-24T02:00:14Z", "2026-11-24T02:47:50Z", "UTC", now)).toBe(
      "Tue 24 Nov, 02:00:14 – 02:47:50",
    );
    expect(period("2026-11-23T23:00:00Z", "2026-11-24T01:00:00Z", "UTC", now)).toBe(
      "Mon 23 Nov, 23:00:00 – Tue 24 Nov, 01:00:00",
    );
  });
  it.each([
    [4, "4 s ago"],
    [59.9, "59 s ago"],
    [3599, "59 m ago"],
    [11_520, "3 h ago"],
    [200_000, "2 d ago"],
  ])("writes an age of %d s", (seconds, text) => {
    expect(plain(ago(Date.parse(now) - seconds * 1000, now))).toBe(text);
  });
});

/** A time zone by its IANA name. Times are in UTC unless the user chose another zone. */
export type Zone = string;

const cache = new Map<string, Intl.DateTimeFormat>();

function formatter(zone: Zone, options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  const key = zone + JSON.stringify(options);
  let format = cache.get(key);
  if (!format) {
    format = new Intl.DateTimeFormat("en-GB", { timeZone: zone, hourCycle: "h23", ...options });
    cache.set(key, format);
  }
  return format;
}

type Instant = string | number | Date;

const date = (at: Instant) => (at instanceof Date ? at : new Date(at));

/** Returns the time of day: `02:37`. */
export function clock(at: Instant, zone: Zone = "UTC"): string {
  return formatter(zone, { hour: "2-digit", minute: "2-digit" }).format(date(at));
}

/** Returns the time of day with seconds: `02:37:44`. */
export function clockSeconds(at: Instant, zone: Zone = "UTC"): string {
  return formatter(zone, { hour: "2-digit", minute: "2-digit", second: "2-digit" }).format(date(at));
}

/** Returns the day: `Tue 24 Nov`. The year is added if it is not that of `now`. */
export function day(at: Instant, zone: Zone = "UTC", now: Instant = Date.now()): string {
  const { text, year } = dayParts(at, zone);
  return year === dayParts(now, zone).year ? text : `${text} ${year}`;
}

const DAY_PARTS: Intl.DateTimeFormatOptions = {
  weekday: "short",
  day: "numeric",
  month: "short",
  year: "numeric",
};

/** Returns the day without its year, and the year. */
const dayParts = perDay((at, zone) => {
  const parts = formatter(zone, DAY_PARTS).formatToParts(at);
  const part = Object.fromEntries(parts.map(({ type, value }) => [type, value]));
  return { text: `${part.weekday} ${part.day} ${part.month}`, year: part.year };
});

/** Returns the day and the time, with `Today`, `Yesterday` or the weekday if it is within a week. */
export function dayAndClock(at: Instant, zone: Zone = "UTC", now: Instant = Date.now()): string {
  const days = dayNumber(now, zone) - dayNumber(at, zone);
  if (days === 0) return `Today ${clock(at, zone)}`;
  if (days === 1) return `Yesterday ${clock(at, zone)}`;
  return `${day(at, zone, now)}, ${clock(at, zone)}`;
}

/** Returns a day and time as a part of a sentence, in which `today` and `yesterday` are not capitalised. */
export function inSentence(dayAndTime: string): string {
  return dayAndTime.replace(/^(Today|Yesterday)/, (word) => word.toLowerCase());
}

/** Returns the day and the time for a column: the weekday within six days, and the date before them. */
export function shortDayAndClock(at: Instant, zone: Zone = "UTC", now: Instant = Date.now()): string {
  const days = dayNumber(now, zone) - dayNumber(at, zone);
  const [weekday = "", ...rest] = day(at, zone, now).split(" ");
  const name = days === 0 ? "Today" : days > 0 && days < 7 ? weekday : rest.join(" ");
  return `${name} ${clock(at, zone)}`;
}

/** Returns the period: the day once, and twice only if it ends on another day. */
export function period(from: Instant, to: Instant, zone: Zone = "UTC", now: Instant = Date.now()): string {
  const start = `${day(from, zone, now)}, ${clockSeconds(from, zone)}`;
  const end = clockSeconds(to, zone);
  if (dayNumber(from, zone) === dayNumber(to, zone)) return `${start} – ${end}`;
  return `${start} – ${day(to, zone, now)}, ${end}`;
}

const DAY_MS = 86_400_000;
const MOST_DAYS = 1_000;

/** Returns the function with a cache of its results in UTC by day: lists have the same days in each row. */
function perDay<Result>(compute: (at: Date, zone: Zone) => Result): (at: Instant, zone: Zone) => Result {
  const known = new Map<number, Result>();
  return (at, zone) => {
    const time = date(at);
    if (zone !== "UTC") return compute(time, zone);
    const number = dayNumber(time, zone);
    let result = known.get(number);
    if (result === undefined) {
      if (known.size >= MOST_DAYS) known.clear();
      result = compute(time, zone);
      known.set(number, result);
    }
    return result;
  };
}

function dayNumber(at: Instant, zone: Zone): number {
  if (zone === "UTC") return Math.floor(date(at).getTime() / DAY_MS);
  const parts = formatter(zone, { year: "numeric", month: "2-digit", day: "2-digit" });
  const part = Object.fromEntries(parts.formatToParts(date(at)).map(({ type, value }) => [type, value]));
  return Date.UTC(Number(part.year), Number(part.month) - 1, Number(part.day)) / DAY_MS;
}

/** Returns the age of something: `4 s ago`, `3 h ago`. */
export function ago(at: Instant, now: Instant = Date.now()): string {
  const seconds = Math.max(0, (date(now).getTime() - date(at).getTime()) / 1000);
  if (seconds < 60) return `${Math.floor(seconds)}\u00a0s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}\u00a0m ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)}\u00a0h ago`;
  return `${Math.floor(seconds / 86_400)}\u00a0d ago`;
}

/**
 * HTTP-date: parses the three formats of RFC 9110 section 5.6.7 strictly. `Date` alone accepts more,
 * for example "2099-01-01". So its result counts only if it formats to the same text again. The
 * weekday adds nothing to a date, so it is not checked.
 */

const ASCTIME = /^\w{3} (\w{3}) ( \d|\d\d) (\S{8}) (\d{4})$/;
const RFC850 = /^\w+day, (\d\d)-(\w{3})-(\d\d)/;

/** Epoch ms of an HTTP-date, or undefined. `now` determines the century of a two-digit year. */
export function parseHttpDate(text: unknown, now: number): number | undefined {
  // RFC 9110: a two-digit year is at most 50 years ahead.
  const maxYear = Math.floor(now / 31_556_952_000) + 2020;
  const fixdate = String(text)
    .replace(ASCTIME, (_, month: string, day: string, time: string, year: string) => {
      return `Day, ${day.replace(" ", "0")} ${month} ${year} ${time} GMT`;
    })
    .replace(RFC850, (_, day: string, month: string, year: string) => {
      return `Day, ${day} ${month} ${maxYear - ((maxYear - Number(year)) % 100)}`;
    });
  // A leap second (60) is legal and counts as the first second of the next minute.
  const shown = fixdate.replace(":60 ", ":59 ");
  const date = new Date(shown.slice(5));
  const isSame = date.toUTCString().slice(3) === shown.slice(3);
  if (!isSame || !/^\w{3}.{26}$/.test(shown)) return undefined;
  return date.getTime() + (shown === fixdate ? 0 : 1000);
}

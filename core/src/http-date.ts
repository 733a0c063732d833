/**
 * HTTP-date: the three spellings of RFC 9110 section 5.6.7, read strictly. By hand, because
 * `Date.parse` also takes "2099-01-01", "tomorrow 1" and whatever else an engine is fond of.
 */

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const MONTH = `(${MONTHS.join("|")})`;
const DAY = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)";
const LONG_DAY = "(?:Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday)";
const TIME = "(\\d\\d):(\\d\\d):(\\d\\d)";

const FIXDATE = new RegExp(`^${DAY}, (\\d\\d) ${MONTH} (\\d{4}) ${TIME} GMT$`);
const RFC850 = new RegExp(`^${LONG_DAY}, (\\d\\d)-${MONTH}-(\\d\\d) ${TIME} GMT$`);
const ASCTIME = new RegExp(`^${DAY} ${MONTH} (\\d\\d| \\d) ${TIME} (\\d{4})$`);

/** Epoch ms of an HTTP-date, or undefined. `now` settles the century of a two-digit year. */
export function parseHttpDate(text: string, now: number): number | undefined {
  const fix = FIXDATE.exec(text);
  if (fix) return instant(Number(fix[3]), fix[2], fix[1], fix.slice(4));
  const old = RFC850.exec(text);
  if (old) return instant(fullYear(Number(old[3]), now), old[2], old[1], old.slice(4));
  const asc = ASCTIME.exec(text);
  if (asc) return instant(Number(asc[6]), asc[1], asc[2], asc.slice(3, 6));
  return undefined;
}

/** RFC 9110: a two-digit year that seems more than 50 years ahead is the latest such year past. */
function fullYear(twoDigits: number, now: number): number {
  const thisYear = 1970 + Math.floor(now / 31_556_952_000);
  const year = thisYear - (thisYear % 100) + twoDigits;
  return year > thisYear + 50 ? year - 100 : year;
}

function instant(
  year: number,
  monthName: string | undefined,
  dayText: string | undefined,
  [hourText, minuteText, secondText]: readonly (string | undefined)[],
): number | undefined {
  const month = MONTHS.indexOf(monthName ?? "") + 1;
  const [day, hour, minute, second] = [dayText, hourText, minuteText, secondText].map(Number) as [
    number,
    number,
    number,
    number,
  ];
  // A leap second (60) is legal and counts as the first of the next minute.
  if (day < 1 || day > daysIn(year, month) || hour > 23 || minute > 59 || second > 60) {
    return undefined;
  }
  return (((daysSince1970(year, month, day) * 24 + hour) * 60 + minute) * 60 + second) * 1000;
}

function daysIn(year: number, month: number): number {
  if (month === 2) return year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0) ? 29 : 28;
  return [4, 6, 9, 11].includes(month) ? 30 : 31;
}

/** Howard Hinnant's days_from_civil: the year begins in March, so that leap days come last. */
function daysSince1970(year: number, month: number, day: number): number {
  const y = month <= 2 ? year - 1 : year;
  const era = Math.floor(y / 400);
  const yearOfEra = y - era * 400;
  const dayOfYear = Math.floor((153 * (month + (month > 2 ? -3 : 9)) + 2) / 5) + day - 1;
  const dayOfEra =
    yearOfEra * 365 + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100) + dayOfYear;
  return era * 146_097 + dayOfEra - 719_468;
}

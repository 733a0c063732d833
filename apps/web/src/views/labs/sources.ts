/** Sources: links to the published results of each lab. The page itself makes no request to them. */

export interface Source {
  readonly text: string;
  /** Absent for sources in this repository. */
  readonly url?: string;
}

const BRONSON: Source = {
  text: "Bronson et al., Metastable Failures in Distributed Systems, HotOS 2021",
  url: "https://doi.org/10.1145/3458336.3465286",
};

/** No published figure: two independent implementations agree. */
const OWN: Source = { text: "our reference, two independent implementations: docs/claims.md" };

/** By lab id. */
export const sources: Readonly<Record<string, readonly Source[]>> = {
  occ: [
    {
      text: "Brooker, Exponential Backoff And Jitter, 2015",
      url: "https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/",
    },
    {
      text: "aws-arch-backoff-simulator",
      url: "https://github.com/aws-samples/aws-arch-backoff-simulator",
    },
  ],
  herd: [OWN],
  load: [
    {
      text: "Brooker, Fixing retries with token buckets and circuit breakers, 2022",
      url: "https://brooker.co.za/blog/2022/02/28/retries.html",
    },
    {
      text: "Brooker, What is Backoff For?, 2022",
      url: "https://brooker.co.za/blog/2022/08/11/backoff.html",
    },
  ],
  budgets: [
    {
      text: "SRE book, ch. 21",
      url: "https://sre.google/sre-book/handling-overload/",
    },
    { text: "Finagle", url: "https://github.com/twitter/finagle" },
    {
      text: "gRFC A6",
      url: "https://github.com/grpc/proposal/blob/master/A6-client-retries.md",
    },
    {
      text: "AWS SDK, retry behavior",
      url: "https://docs.aws.amazon.com/sdkref/latest/guide/feature-retry-behavior.html",
    },
    { text: "Envoy", url: "https://github.com/envoyproxy/envoy" },
  ],
  "throttle-cold-start": [
    {
      text: "SRE book, ch. 21",
      url: "https://sre.google/sre-book/handling-overload/",
    },
    {
      text: "Envoy, admission control filter",
      url: "https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_filters/admission_control_filter",
    },
  ],
  metastable: [
    BRONSON,
    {
      text: "Huang et al., Metastable Failures in the Wild, OSDI 2022",
      url: "https://www.usenix.org/conference/osdi22/presentation/huang-lexiang",
    },
  ],
  collapse: [
    {
      text: "Brooker, simulator_example, 2023",
      url: "https://github.com/mbrooker/simulator_example",
    },
  ],
  breaker: [BRONSON, OWN],
  shards: [
    {
      text: "Brooker, Will circuit breakers solve my problems?, 2022",
      url: "https://brooker.co.za/blog/2022/02/16/circuit-breakers.html",
    },
  ],
  coverage: [OWN],
  failover: [OWN],
  "failover-open": [OWN],
  hedging: [
    {
      text: "Dean and Barroso, The Tail at Scale, 2013",
      url: "https://doi.org/10.1145/2408776.2408794",
    },
  ],
  tiers: [
    {
      text: "SRE book, ch. 22",
      url: "https://sre.google/sre-book/addressing-cascading-failures/",
    },
    {
      text: "AWS Builders' Library, Timeouts, retries, and backoff with jitter",
      url: "https://aws.amazon.com/builders-library/timeouts-retries-and-backoff-with-jitter/",
    },
  ],
};

/** Clients: a child process that sends the same request again and again, eight at a time. */
import { Agent, request } from "node:http";

const CLIENTS = 8;
const BODY = JSON.stringify({ amount: 17, currency: "EUR", note: "x".repeat(200) });
const agent = new Agent({ keepAlive: true, maxSockets: CLIENTS });
const headers = {
  "content-type": "application/json",
  "content-length": Buffer.byteLength(BODY),
  "idempotency-key": "order-17",
};

/** @param {string} url @returns {Promise<number>} the status */
function post(url) {
  return new Promise((resolve, reject) => {
    const sent = request(url, { agent, method: "POST", headers }, (response) => {
      response.resume();
      response.on("end", () => resolve(response.statusCode ?? 0));
    });
    sent.on("error", reject);
    sent.end(BODY);
  });
}

process.on("message", async (/** @type {{ url: string, count: number }} */ { url, count }) => {
  let left = count;
  let failed = 0;
  const client = async () => {
    while (left-- > 0) if ((await post(url)) !== 201) failed++;
  };
  await Promise.all(Array.from({ length: Math.min(CLIENTS, count) }, client));
  process.send?.(failed);
});

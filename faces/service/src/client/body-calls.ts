/** Body calls: the part of the client for bodies of any size. */
import type { UploadedBody } from "../schemas/body-schemas.ts";
import type { RawBody, Transport } from "./transport.ts";

export interface BodyCalls {
  /** Stores a body of any size. Create tasks with its `bodyRef`. */
  uploadBody(body: RawBody): Promise<UploadedBody>;
  /** The body of a task, as a stream. It fails if the stored bytes are not the accepted ones. */
  downloadBody(taskId: string): Promise<ReadableStream<Uint8Array>>;
}

export function bodyCalls({ request, open }: Transport): BodyCalls {
  return {
    uploadBody: (bytes) => request({ method: "POST", path: ["bodies"], bytes }, "bodyRef"),
    async downloadBody(taskId) {
      const { body } = await open({ method: "GET", path: ["retry-tasks", taskId, "body"] });
      return body ?? new Blob([]).stream();
    },
  };
}

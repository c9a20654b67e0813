/** Make a payment with the TypeScript client: `node typescript_client.mjs URL REQUEST` prints each answer. */
import { Client } from "@settlement-saga/client";

const [apiUrl, text] = process.argv.slice(2);
const request = JSON.parse(text);
const client = new Client({ apiUrl });

const accepted = await client.start(request);
const waited = await client.wait(request.key, { seconds: 120 });
const answers = {
  accepted: accepted ?? null,
  waited,
  repeated: await client.start(request, { wait: 20 }),
  read: await client.get(request.key),
  conflict: await refusal(client.start({ ...request, amount: "1.00" })),
  refused: await refusal(client.start({ ...request, key: `${request.key}-2`, currency: "XXX" })),
  cancelled: await refusal(client.cancel(request)),
  unknown: await refusal(client.get(`${request.key}-3`)),
};
console.log(JSON.stringify(answers));

async function refusal(call) {
  try {
    return await call;
  } catch (error) {
    return error.name;
  }
}

/** Write the contracts' types into a folder: `node generate.mjs src/generated`. */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

import openapiTS, { astToString } from "openapi-typescript";

const CONTRACTS = new URL("../../docs/contracts/", import.meta.url);
const HEAD = "// Made by generate.mjs from docs/contracts. Do not edit: `npm run generate` writes it anew.\n";

/**
 * Return a JSON Schema as OpenAPI needs it: without its name, its conditions, which no type can say, and its examples;
 * its definitions are schemas beside it.
 */
function schemas(name, { $id, $schema, allOf, oneOf, $defs = {}, examples, ...schema }) {
  return { [name]: schema, ...$defs };
}

async function contract(name) {
  const text = await readFile(new URL(`${name}.schema.json`, CONTRACTS), "utf8");
  const schema = JSON.parse(text.replaceAll("#/$defs/", "#/components/schemas/"));
  return JSON.parse(
    JSON.stringify(schema).replaceAll("urn:settlement:settlement-outcome", "#/components/schemas/outcome"),
  );
}

const { $defs, ...event } = await contract("settlement-event");
const documents = {
  openapi: "3.1.0",
  info: { title: "The contracts of outcomes and events", version: "1" },
  paths: {},
  components: { schemas: { ...schemas("outcome", await contract("settlement-outcome")), ...schemas("event", event) } },
};
const sources = { "api.ts": new URL("settlements.openapi.yaml", CONTRACTS), "documents.ts": documents };
for (const [file, source] of Object.entries(sources)) {
  const types = astToString(await openapiTS(source, { immutable: true }));
  await writeFile(join(process.argv[2], file), HEAD + types);
}

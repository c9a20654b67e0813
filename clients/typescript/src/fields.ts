import { MalformedAnswer } from "./errors.js";

const AMOUNT = /^(0|[1-9][0-9]*)(\.[0-9]{1,18})?$/;
const INSTANT = /^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z$/;

/** Whether a value is a JSON object. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Return a JSON object from its text, or as it is. Throws MalformedAnswer. */
export function objectOf(given: unknown, what: string): Record<string, unknown> {
  const content = typeof given === "string" ? parsed(given, what) : given;
  if (!isObject(content)) {
    throw new MalformedAnswer(`${what}: must be a JSON object`);
  }
  return content;
}

function parsed(text: string, what: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new MalformedAnswer(`${what}: is no JSON`, { cause });
  }
}

/** The checks of one object's fields. Each throws MalformedAnswer, which names the field. */
export class Fields {
  constructor(
    readonly content: Record<string, unknown>,
    readonly what: string,
  ) {}

  /** Return whether a field is there, and not null. */
  has(name: string): boolean {
    return this.content[name] !== undefined && this.content[name] !== null;
  }

  /** Return whether a required field is not null. */
  isSet(name: string): boolean {
    if (!(name in this.content)) {
      throw this.#wrong(name, "");
    }
    return this.has(name);
  }

  /** Return a string, which matches the pattern if there is one. */
  text(name: string, pattern?: RegExp): string {
    const value = this.content[name];
    if (typeof value !== "string") {
      throw this.#wrong(name, "must be a string");
    }
    if (pattern && !pattern.test(value)) {
      throw this.#wrong(name, `must match ${pattern.source}`);
    }
    return value;
  }

  /** Check a decimal string. */
  amount(name: string): void {
    this.text(name, AMOUNT);
  }

  /** Check an instant in UTC. */
  instant(name: string): void {
    if (Number.isNaN(Date.parse(this.text(name, INSTANT)))) {
      throw this.#wrong(name, "is no instant");
    }
  }

  /** Check a boolean. */
  flag(name: string): void {
    if (typeof this.content[name] !== "boolean") {
      throw this.#wrong(name, "must be true or false");
    }
  }

  /** Check a list of strings. */
  texts(name: string): void {
    const value = this.content[name];
    if (!(Array.isArray(value) && value.every((one) => typeof one === "string"))) {
      throw this.#wrong(name, "must be a list of strings");
    }
  }

  /** Check an object of texts. */
  mapping(name: string): void {
    const value = this.content[name];
    if (!(isObject(value) && Object.values(value).every((one) => typeof one === "string"))) {
      throw this.#wrong(name, "must be an object of texts");
    }
  }

  /** Return the member of an enumeration. A program may not act on an unknown one. */
  oneOf<T extends string>(name: string, values: readonly T[]): T {
    const text = this.text(name);
    const found = values.find((value) => value === text);
    if (found === undefined) {
      throw this.#wrong(name, `'${text.slice(0, 40)}' is unknown; it must be one of ${values.join(", ")}`);
    }
    return found;
  }

  /** Return the fields of an object in a field. */
  inner(name: string): Fields {
    const value = this.content[name];
    if (!isObject(value)) {
      throw this.#wrong(name, "must be an object");
    }
    return new Fields(value, `${this.what}.${name}`);
  }

  #wrong(name: string, words: string): MalformedAnswer {
    return new MalformedAnswer(`${this.what}.${name}: ${name in this.content ? words : "missing"}`);
  }
}

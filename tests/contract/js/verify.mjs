// Reads {"card", "keySet"} from standard input and asks the A2A SDK whether the card is signed by one of the keys.
// Prints the canonical payload when it is, and ends with 1 when it is not.
//
// The SDK is given the card as JSON: its parsed form loses the security schemes when it is made canonical
// (a2aproject/a2a-js issue 663), and then no card that has any can be verified.
import { readFileSync } from "node:fs";
import { canonicalizeAgentCard, verifyAgentCardSignature } from "@a2a-js/sdk";

const { card, keySet } = JSON.parse(readFileSync(0, "utf8"));
const known = new Map(keySet.keys.map((key) => [key.kid, key]));
const verify = verifyAgentCardSignature(async (kid) => {
  if (!known.has(kid)) throw new Error(`no key ${kid}`);
  return known.get(kid);
});
console.debug = () => {};
try {
  await verify(card);
  process.stdout.write(canonicalizeAgentCard(card));
} catch (error) {
  console.error(error.message);
  process.exit(1);
}

// A certified OpenID provider on this machine, with pages on which anybody is whom they say they are.
import { createServer } from "node:http";

import { SignJWT, UnsecuredJWT, decodeJwt, exportJWK, generateKeyPair } from "jose";
import { Provider } from "oidc-provider";

export const CLIENT = { id: "galvo", secret: "the secret of this client" };

/** A key that signs, with its name. */
export async function signingKey(kid) {
  const { privateKey } = await generateKeyPair("ES256", { extractable: true });
  return { privateKey, jwk: { ...(await exportJWK(privateKey)), kid, alg: "ES256", use: "sig" } };
}

/** A port nobody listens on. */
export function freePort() {
  return new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

/** What a person of this name is said to be. */
const claims = (name) => ({ sub: `subject of ${name}`, preferred_username: name, teams: name.split("-").slice(1) });

/**
 * Starts a provider at a port, which signs with a key. Before it answers with an ID token, `forge` may put another one
 * in its place: made of its claims, and signed as is wished.
 */
export async function start(port, key, server) {
  const provider = new Provider(`http://127.0.0.1:${port}`, {
    clients: [
      {
        client_id: CLIENT.id,
        client_secret: CLIENT.secret,
        redirect_uris: [`${server}/sign-in/oidc/callback`],
        id_token_signed_response_alg: "ES256",
      },
    ],
    jwks: { keys: [key.jwk] },
    claims: { profile: ["preferred_username", "teams"] },
    // As most providers do, and not as the specification would rather have it.
    conformIdTokenClaims: false,
    findAccount: (_, id) => ({ accountId: id, claims: () => claims(id) }),
    subjectTypes: ["public"],
    pkce: { required: () => true },
    cookies: { keys: ["a key for cookies"] },
    features: { devInteractions: { enabled: true } },
  });
  const started = { url: provider.issuer, forge: undefined, asked: [] };
  provider.use(async (ctx, next) => {
    started.asked.push(ctx.path);
    await next();
    const token = ctx.path === "/token" && ctx.body?.id_token;
    if (token && started.forge) ctx.body.id_token = await started.forge(decodeJwt(token), key.privateKey);
  });
  const listening = await new Promise((resolve, reject) => {
    const listening = provider.listen(port, "127.0.0.1", () => resolve(listening)).on("error", reject);
  });
  started.stop = () => {
    listening.closeAllConnections();
    return new Promise((resolve) => listening.close(resolve));
  };
  return started;
}

/** A token of these claims as its provider signs it, by the name of the key. */
export const signed = (kid) => (payload, privateKey) =>
  new SignJWT(payload).setProtectedHeader({ alg: "ES256", kid }).sign(privateKey);

/** A token that is signed with what the client shares with its provider. */
export const signedWithSecret = (payload) =>
  new SignJWT(payload).setProtectedHeader({ alg: "HS256" }).sign(new TextEncoder().encode(CLIENT.secret));

/** A token that nobody has signed. */
export const unsigned = (payload) => new UnsecuredJWT(payload).encode();

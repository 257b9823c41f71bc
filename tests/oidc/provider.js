// A certified OpenID provider on this machine, whose pages accept any user name.
import { createServer } from "node:http";

import { SignJWT, UnsecuredJWT, decodeJwt, exportJWK, generateKeyPair } from "jose";
import { Provider } from "oidc-provider";

export const CLIENT = { id: "galvo", secret: "the secret of this client" };

/** Creates a signing key with this id. */
export async function signingKey(kid) {
  const { privateKey } = await generateKeyPair("ES256", { extractable: true });
  return { privateKey, jwk: { ...(await exportJWK(privateKey)), kid, alg: "ES256", use: "sig" } };
}

/** Returns a port without a listener. */
export function freePort() {
  return new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

/** Returns the claims about the user with this name. */
const claims = (name) => ({ sub: `subject of ${name}`, preferred_username: name, teams: name.split("-").slice(1) });

/**
 * Starts a provider at a port, which signs with a key. `forge` may replace its ID tokens: it gets the
 * claims and the key, and returns a token.
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
    // As most providers do, although the specification recommends the opposite.
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

/** Returns a token with these claims, signed as by the provider, with this key id. */
export const signed = (kid) => (payload, privateKey) =>
  new SignJWT(payload).setProtectedHeader({ alg: "ES256", kid }).sign(privateKey);

/** Returns a token that is signed with the client secret. */
export const signedWithSecret = (payload) =>
  new SignJWT(payload).setProtectedHeader({ alg: "HS256" }).sign(new TextEncoder().encode(CLIENT.secret));

/** Returns an unsigned token. */
export const unsigned = (payload) => new UnsecuredJWT(payload).encode();

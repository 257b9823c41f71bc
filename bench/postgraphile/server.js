// PostGraphile with production settings on the database DATABASE_URL, with DATABASE_CONNECTIONS connections. Prints the
// port that it serves on 127.0.0.1.
import { createServer } from "node:http";
import { postgraphile } from "postgraphile";
import { makePgService } from "postgraphile/adaptors/pg";
import { grafserv } from "postgraphile/grafserv/node";
import { PostGraphileAmberPreset } from "postgraphile/presets/amber";

const { DATABASE_URL, DATABASE_CONNECTIONS } = process.env;

const preset = {
  extends: [PostGraphileAmberPreset],
  // The indexes begin with the account, so that their other columns would have no filters and orders.
  disablePlugins: ["PgIndexBehaviorsPlugin"],
  pgServices: [
    makePgService({
      connectionString: DATABASE_URL,
      schemas: ["public"],
      pubsub: false,
      poolConfig: {
        application_name: "postgraphile",
        max: Number(DATABASE_CONNECTIONS),
        // Connections that end would take their processor time with them.
        idleTimeoutMillis: 0,
      },
    }),
  ],
  grafserv: { graphiql: false, watch: false, websockets: false },
  grafast: { explain: false },
};

const server = createServer();
await postgraphile(preset).createServ(grafserv).addTo(server);
server.listen(0, "127.0.0.1", () => process.stdout.write(`${server.address().port}\n`));

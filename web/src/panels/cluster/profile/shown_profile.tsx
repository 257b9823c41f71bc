import { useSearch } from "@tanstack/react-router";
import { useCallback, useDeferredValue, useMemo, useRef, useState } from "react";
import { Flame } from "@/charts/flame/flame.tsx";
import {
  ClusterProfileDocument,
  type ClusterProfileQuery,
  type ClusterProfileQueryVariables,
} from "@/data/gql/graphql.ts";
import { count, counted } from "@/format/number.ts";
import { period } from "@/format/time.ts";
import { TakeAway } from "@/panels/take_away/take_away.tsx";
import { useSetClusterSearch } from "@/routes/cluster/use_cluster_search.ts";
import { Button } from "@/ui/button.tsx";
import { useCommands } from "@/ui/commands.ts";
import { Icon } from "@/ui/icon.tsx";
import { Section } from "@/ui/panel.tsx";
import { Segmented } from "@/ui/segmented.tsx";
import {
  type Calls,
  calls,
  type Found,
  find,
  functionsOf,
  keyOfNode,
  nodeOfKey,
  ORIGIN_NAMES,
  ORIGIN_TOKENS,
  ORIGINS,
  originOf,
  pathTo,
  percent,
} from "./calls.ts";
import { FunctionTable } from "./function_table.tsx";
import styles from "./profile.module.css";

const ROUTE = "/$account/clusters/$number";
/** The functions below the graph. The table has all of them. */
const MOST_FUNCTIONS = 12;

type Profile = NonNullable<NonNullable<ClusterProfileQuery["cluster"]>["profile"]>;

interface ShownProfileProps {
  profile: Profile;
  variables: ClusterProfileQueryVariables;
  minShare: number;
  isPart: boolean;
}

/** The profile as a flame graph and as a table of functions. */
export function ShownProfile({ profile, variables, minShare, isPart }: ShownProfileProps) {
  const { open, q, table } = useSearch({ from: ROUTE });
  const set = useSetClusterSearch();
  // The address follows: a field that waited for it would lose keys.
  const [typed, setTyped] = useState(q ?? "");
  const text = useDeferredValue(typed);
  const tree = useMemo(() => calls(profile), [profile]);
  const functions = useMemo(() => functionsOf(tree), [tree]);
  const found = useMemo(() => find(tree, text), [tree, text]);
  const root = useMemo(() => nodeOfKey(tree, open), [tree, open]);
  const { samples, drawnSamples } = tree;
  const [first] = functions;
  const isTable = table === "yes";
  const setTable = (next: boolean) => set({ table: next ? "yes" : undefined });
  const setRoot = (node: number) => set({ open: keyOfNode(tree, node) });
  const setText = (next: string) => {
    setTyped(next);
    set({ q: next || undefined });
  };
  const choose = (name: string) => setText(name === typed ? "" : name);
  const drawn =
    drawnSamples === samples
      ? "every sample is drawn to its innermost line"
      : `${percent(drawnSamples, samples)} of them are drawn to their innermost line`;
  return (
    <>
      <Section
        title={
          first ? (
            <>
              {percent(first.self, samples)} of the samples are in <code>{first.name}</code> itself
            </>
          ) : (
            "Profile"
          )
        }
        sub={isPart ? "windows that begin in the chosen part" : "whole run"}
        actions={
          <>
            <Segmented
              label="View"
              options={[
                { value: "graph", label: "Flame graph" },
                { value: "table", label: "Table" },
              ]}
              value={isTable ? "table" : "graph"}
              onChange={(view) => setTable(view === "table")}
            />
            <TakeAway
              name="profile"
              document={ClusterProfileDocument}
              variables={variables}
              sheet={{
                head: ["function", "file", "own samples", "samples"],
                rows: functions.map(({ name, file, self, total }) => [name, file, self, total]),
              }}
              isTable={isTable}
              onTable={setTable}
            />
          </>
        }
      >
        <p className={styles.tools}>
          {counted(samples, "sample")} of at most {counted(profile.workers, "worker")} at a time,{" "}
          {period(profile.from, profile.to)} UTC; {drawn}
        </p>
        <Tools text={typed} found={found} samples={samples} onText={setText} />
        {isTable ? (
          <FunctionTable
            functions={functions}
            samples={samples}
            restSamples={samples - drawnSamples}
            chosen={typed}
            onChoose={choose}
          />
        ) : (
          <Graph tree={tree} found={found} root={root} onRoot={setRoot} />
        )}
        {!profile.complete && (
          <p className={styles.note}>
            It contains at most the newest 200 windows that can be decrypted. Choose a part to see others.
          </p>
        )}
        <p className={styles.note}>
          {drawnSamples < samples &&
            `Lines on less than ${percent(minShare, 1)} of the samples are left out. `}
          Dask samples threads that have a task, every 10 ms and less often where they wait for the GIL: trust
          shares, not seconds. Code of native libraries is not sampled.
        </p>
      </Section>
      {!isTable && (
        <Section
          level={3}
          title="Functions by own time"
          sub={
            functions.length > MOST_FUNCTIONS
              ? `the first ${MOST_FUNCTIONS} of ${count(functions.length)}`
              : ""
          }
        >
          <FunctionTable
            functions={functions.slice(0, MOST_FUNCTIONS)}
            others={functions.slice(MOST_FUNCTIONS)}
            samples={samples}
            restSamples={samples - drawnSamples}
            chosen={typed}
            onChoose={choose}
          />
        </Section>
      )}
    </>
  );
}

interface ToolsProps {
  text: string;
  found: Found | null;
  samples: number;
  onText(text: string): void;
}

function Tools({ text, found, samples, onText }: ToolsProps) {
  const field = useRef<HTMLInputElement>(null);
  useCommands([
    {
      id: "find-in-profile",
      label: "Find in the profile",
      keys: "f",
      group: "Chart",
      run: () => field.current?.focus(),
    },
  ]);
  return (
    <div className={styles.tools}>
      <label className={styles.search}>
        <Icon name="search" />
        <input
          ref={field}
          aria-label="Find a function or file"
          placeholder="Find a function or file"
          value={text}
          autoComplete="off"
          spellCheck={false}
          onChange={(event) => onText(event.target.value)}
          onKeyDown={(event) => event.key === "Escape" && onText("")}
        />
        <span className={styles.hint} aria-hidden="true">
          f
        </span>
      </label>
      <span role="status">
        {found &&
          (found.functions === 0
            ? "No function and no file contains this"
            : `${counted(found.functions, "function")} on the path of ${percent(found.samples, samples)} of the samples`)}
      </span>
      <span className="grow" />
      <ul className={styles.key} aria-label="Colours">
        {ORIGINS.map((origin) => (
          <li key={origin}>
            <i className={styles.swatch} style={{ background: `var(${ORIGIN_TOKENS[origin]})` }} />
            {ORIGIN_NAMES[origin]}
          </li>
        ))}
      </ul>
    </div>
  );
}

interface GraphProps {
  tree: Calls;
  found: Found | null;
  root: number;
  onRoot(node: number): void;
}

function Graph({ tree, found, root, onRoot }: GraphProps) {
  const tokens = useMemo(() => tree.lines.map(({ file }) => ORIGIN_TOKENS[originOf(file)]), [tree]);
  const colour = useCallback(
    (node: number) => tokens[tree.frames[node] ?? 0] ?? ORIGIN_TOKENS.std,
    [tree, tokens],
  );
  const isHit = useCallback((node: number) => found?.lines[tree.frames[node] ?? 0] === 1, [tree, found]);
  return (
    <>
      {root >= 0 && <Path tree={tree} root={root} onRoot={onRoot} />}
      <Flame
        label={`Flame graph of ${counted(tree.samples, "sample")}, callers above those they call.`}
        tree={tree}
        colour={colour}
        isHit={isHit}
        root={root}
        onRoot={onRoot}
        tip={(node) => <Tip tree={tree} node={node} />}
        describe={(node) => inWords(tree, node)}
      />
      {root >= 0 && <Facts tree={tree} node={root} onRoot={onRoot} />}
    </>
  );
}

const MOST_CALLERS = 5;

/** The callers of the enlarged function. */
function Path({ tree, root, onRoot }: Omit<GraphProps, "found">) {
  const path = pathTo(tree, root);
  const shown = path.slice(-MOST_CALLERS);
  return (
    <nav className={styles.path} aria-label="Callers">
      <Button size="small" look="ghost" onClick={() => onRoot(-1)}>
        all
      </Button>
      {path.length > shown.length && <span>/ {counted(path.length - shown.length, "call")}</span>}
      {shown.map((node) => (
        <span key={node}>
          /{" "}
          {node === root ? (
            <code>{tree.lines[tree.frames[node] ?? 0]?.function}</code>
          ) : (
            <Button size="small" look="ghost" onClick={() => onRoot(node)}>
              {tree.lines[tree.frames[node] ?? 0]?.function}
            </Button>
          )}
        </span>
      ))}
    </nav>
  );
}

function factsOf(tree: Calls, node: number) {
  const line = tree.lines[tree.frames[node] ?? 0];
  return {
    name: line?.function ?? "",
    place: line ? `${line.file}:${line.line}` : "",
    code: line?.text ?? null,
    total: tree.totals[node] ?? 0,
    own: tree.selves[node] ?? 0,
  };
}

function inWords(tree: Calls, node: number): string {
  const { name, place, total, own } = factsOf(tree, node);
  return `${name}, ${place}, ${percent(total, tree.samples)} of the samples, ${percent(own, tree.samples)} in itself`;
}

function Tip({ tree, node }: { tree: Calls; node: number }) {
  const { name, place, code, total, own } = factsOf(tree, node);
  return (
    <div className={styles.tip}>
      <b>{name}</b> {percent(total, tree.samples)}, own {percent(own, tree.samples)}
      <br />
      <code className="faint">{place}</code>
      {code !== null && (
        <>
          <br />
          <code>{code.trim()}</code>
        </>
      )}
    </div>
  );
}

/** The enlarged function with its line of code. */
function Facts({ tree, node, onRoot }: { tree: Calls; node: number; onRoot(node: number): void }) {
  const { name, place, code, total, own } = factsOf(tree, node);
  return (
    <div className={styles.facts}>
      <b>{name}</b>
      <code className="faint">{place}</code>
      {code === null ? <span className="faint">its code is not kept</span> : <code>{code.trim()}</code>}
      <span className="grow" />
      <span>
        own <b>{percent(own, tree.samples)}</b>
      </span>
      <span>
        total <b>{percent(total, tree.samples)}</b>
      </span>
      <span>
        samples <b>{count(total)}</b>
      </span>
      <Button size="small" onClick={() => onRoot(-1)}>
        Show everything
      </Button>
    </div>
  );
}

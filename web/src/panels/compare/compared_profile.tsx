import { useMemo, useState } from "react";
import { Flame } from "@/charts/flame/flame.tsx";
import { CompareProfileDocument } from "@/data/gql/graphql.ts";
import { useAsk } from "@/data/queries.ts";
import { count, counted, signed } from "@/format/number.ts";
import { calls, percent } from "@/panels/cluster/profile/calls.ts";
import { SheetTable } from "@/panels/take_away/sheet_table.tsx";
import { TakeAway } from "@/panels/take_away/take_away.tsx";
import { Button } from "@/ui/button.tsx";
import { Loaded, Section, Withheld } from "@/ui/panel.tsx";
import styles from "./compare.module.css";
import { differenceToken, type ProfileComparison, pointsOf } from "./differences.ts";

/** The least share of the samples of both that a line is drawn with. */
const MIN_SHARE = 0.001;

/** The profiles of both clusters in one flame graph. */
export default function ComparedProfile({ base, head }: { base: string; head: string }) {
  const variables = { base, head, minShare: MIN_SHARE };
  // The server records each answer in the audit log, so the query is not repeated.
  const query = useAsk(CompareProfileDocument, variables, { staleSeconds: Number.POSITIVE_INFINITY });
  return (
    <Loaded name="The profiles" query={query}>
      {({ viewer }) => {
        const profile = viewer.account.compare?.profile;
        if (profile) return <ComparedFlame key={`${base} ${head}`} profile={profile} variables={variables} />;
        return (
          <Section title="Profiles">
            <Withheld title="Neither cluster has a profile">
              Turn on <code>galvo.profile.transmit</code> where they are started.
            </Withheld>
          </Section>
        );
      }}
    </Loaded>
  );
}

interface ComparedFlameProps {
  profile: ProfileComparison;
  variables: { base: string; head: string; minShare: number };
}

const LEGEND = [-5, -2, -0.6, 0, 0.6, 2, 5];

const points = (value: number) => signed(value, (size) => size.toFixed(1));

function ComparedFlame({ profile, variables }: ComparedFlameProps) {
  const [root, setRoot] = useState(-1);
  const [isTable, setTable] = useState(false);
  const { nodes, frames, baseSamples, headSamples } = profile;
  const tree = useMemo(
    () =>
      calls({
        samples: headSamples,
        frames,
        columns: {
          parents: nodes.map(({ parent }) => parent),
          frames: nodes.map(({ frame }) => frame),
          self: nodes.map(({ headSelf }) => headSelf),
          totals: nodes.map(({ headTotal }) => headTotal),
        },
      }),
    [nodes, frames, headSamples],
  );
  const colour = useMemo(() => (node: number) => differenceToken(pointsOf(profile, node)), [profile]);
  const words = (node: number) => {
    const line = frames[nodes[node]?.frame ?? 0];
    const share = percent(nodes[node]?.headTotal ?? 0, headSamples);
    return { line, text: `${share} of B, ${points(pointsOf(profile, node))} points` };
  };
  const sheet = {
    head: ["node", "caller", "function", "file", "line", "samples of A", "samples of B", "points"],
    rows: nodes.map(({ parent, frame, baseTotal, headTotal }, node) => {
      const line = frames[frame];
      return [
        node,
        parent,
        line?.function ?? "",
        line?.file ?? "",
        line?.line ?? null,
        baseTotal,
        headTotal,
        pointsOf(profile, node),
      ];
    }),
  };
  if (baseSamples === 0 || headSamples === 0)
    return (
      <Section title="Profiles">
        <Withheld title={`Only ${headSamples === 0 ? "A" : "B"} has a profile`}>
          {counted(Math.max(baseSamples, headSamples), "sample")}, and nothing to compare them with.
        </Withheld>
      </Section>
    );
  return (
    <Section
      title="Profiles, one in the other"
      sub={`width is B, ${counted(headSamples, "sample")}; A has ${count(baseSamples)}; colour is the difference of the shares`}
      actions={
        <>
          <span className={styles.key}>
            less
            {LEGEND.map((at) => (
              <i key={at} style={{ background: `var(${differenceToken(at)})` }} />
            ))}
            more in B
          </span>
          {root >= 0 && (
            <Button size="small" onClick={() => setRoot(-1)}>
              Show everything
            </Button>
          )}
          <TakeAway
            name="difference-of-profiles"
            document={CompareProfileDocument}
            variables={variables}
            sheet={sheet}
            isTable={isTable}
            onTable={setTable}
          />
        </>
      }
    >
      {isTable ? (
        <SheetTable
          label="Profiles"
          sheet={{ ...sheet, rows: sheet.rows.slice(0, 500) }}
          format={(value) => String(Math.round(value * 10) / 10)}
        />
      ) : (
        <Flame
          label={`Flame graph of ${counted(headSamples, "sample")} of B, coloured by the difference from A.`}
          tree={tree}
          colour={colour}
          root={root}
          onRoot={setRoot}
          tip={(node) => (
            <div className={styles.tip}>
              <b>{words(node).line?.function}</b> {words(node).text}
              <br />
              <code className="faint">
                {words(node).line?.file}:{words(node).line?.line}
              </code>
            </div>
          )}
          describe={(node) => `${words(node).line?.function}, ${words(node).text}`}
        />
      )}
      <p className={styles.note}>
        Points are percentage points: the share of a line in B minus its share in A. Lines that only A was in
        have no width.
        {isTable && nodes.length > 500 && " The table has the first 500 lines, the CSV has all."}
        {!profile.complete && " Not all windows are merged: at most the newest 500 of each are."}
      </p>
    </Section>
  );
}

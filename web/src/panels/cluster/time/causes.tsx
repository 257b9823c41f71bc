import { useState } from "react";
import { LabelledBar } from "@/charts/bars/labelled_bar.tsx";
import type { Part } from "@/charts/bars/stacked_bar.tsx";
import { ACTIVITIES, ACTIVITY_NAMES, ACTIVITY_TOKENS, type Activity, isHatched } from "@/charts/colour.ts";
import { ClusterCausesDocument, type ClusterCausesQuery } from "@/data/gql/graphql.ts";
import { useAsk } from "@/data/queries.ts";
import { threadTimeInWords, threadTimes } from "@/format/duration.ts";
import { money } from "@/format/money.ts";
import { share, threeDigits } from "@/format/number.ts";
import type { Sheet } from "@/panels/take_away/csv.ts";
import { SheetTable } from "@/panels/take_away/sheet_table.tsx";
import { TakeAway } from "@/panels/take_away/take_away.tsx";
import { Empty, Loaded, Section } from "@/ui/panel.tsx";
import { Segmented } from "@/ui/segmented.tsx";

type Usage = NonNullable<ClusterCausesQuery["cluster"]>["usage"];

interface CausesProps {
  id: string;
  unit: string;
  onUnit(unit: string): void;
}

/** The cluster's thread time, or its cost, by what the threads did. The parts add up to the headline. */
export function Causes({ id, unit, onUnit }: CausesProps) {
  const query = useAsk(ClusterCausesDocument, { id });
  const [isTable, setTable] = useState(false);
  const isMoney = unit === "money";
  return (
    <Loaded name="The thread time" query={query}>
      {({ cluster }) => {
        if (!cluster) return null;
        const { usage } = cluster;
        const sheet = causesSheet(usage);
        const shown = isMoney ? costs(usage) : times(usage);
        return (
          <Section
            title={shown.title}
            sub={usage.isComplete ? "whole run" : "whole run, incomplete: values were clamped"}
            actions={
              <>
                <Segmented
                  label="Unit"
                  options={[
                    { value: "time", label: "Time" },
                    { value: "money", label: "Money", disabled: usage.costs.length !== 1 },
                  ]}
                  value={isMoney ? "money" : "time"}
                  onChange={onUnit}
                />
                <TakeAway
                  name="thread-time"
                  document={ClusterCausesDocument}
                  variables={{ id }}
                  sheet={sheet}
                  isTable={isTable}
                  onTable={setTable}
                />
              </>
            }
          >
            {shown.parts.length === 0 ? (
              <Empty title="No worker has offered any thread yet" />
            ) : isTable ? (
              <SheetTable label="Thread time" sheet={sheet} format={threeDigits} />
            ) : (
              <LabelledBar label={shown.title} parts={shown.parts} format={shown.format} />
            )}
          </Section>
        );
      }}
    </Loaded>
  );
}

/** Returns the causes in seconds and, if all workers have a price in one currency, in money. */
function causesSheet({ causes, costs }: Usage): Sheet {
  const cost = costs.length === 1 ? costs[0] : undefined;
  const amounts = new Map(cost?.causes.map(({ cause, amount }) => [cause, amount]));
  return {
    head: ["cause", "thread time, s", ...(cost ? [`cost, ${cost.currency}`] : [])],
    rows: causes.map(({ cause, seconds }) => [
      ACTIVITY_NAMES[cause],
      seconds,
      ...(cost ? [amounts.get(cause) ?? null] : []),
    ]),
  };
}

interface Shown {
  title: string;
  parts: Part[];
  format(value: number): string;
}

function parts(values: ReadonlyMap<Activity, number>): Part[] {
  return ACTIVITIES.flatMap((activity) => {
    const value = values.get(activity) ?? 0;
    if (value <= 0) return [];
    return [
      {
        id: activity,
        label: ACTIVITY_NAMES[activity],
        value,
        colour: ACTIVITY_TOKENS[activity],
        isHatched: isHatched(activity),
        isOutlined: activity === "IDLE",
      },
    ];
  });
}

function times({ threadSeconds, causes }: Usage): Shown {
  const values = new Map(causes.map(({ cause, seconds }) => [cause, seconds]));
  const time = threadTimes(threadSeconds);
  const part = (cause: Activity) => share((values.get(cause) ?? 0) / threadSeconds);
  const finding = threadSeconds > 0 ? `: ${part("CPU")} used the CPU, ${part("IDLE")} had no task` : "";
  return {
    title: threadTimeInWords(threadSeconds) + finding,
    parts: parts(values),
    format: (seconds) => `${time(seconds)} · ${share(seconds / threadSeconds)}`,
  };
}

function costs({ costs: [cost] }: Usage): Shown {
  const values = new Map(cost?.causes.map(({ cause, amount }) => [cause, amount]));
  const amount = cost?.amount ?? 0;
  const currency = cost?.currency ?? "USD";
  const idle = amount > 0 ? `: ${share((values.get("IDLE") ?? 0) / amount)} for idle threads` : "";
  const basis = cost?.basis === "ESTIMATED" ? " est." : "";
  return {
    title: money(amount, currency) + basis + idle,
    parts: parts(values),
    format: (value) => `${money(value, currency)} · ${share(value / amount)}`,
  };
}

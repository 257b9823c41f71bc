import { type FormEvent, type ReactNode, useState } from "react";
import type { FlagKind } from "@/data/gql/graphql.ts";
import { type ClustersSearch, RANGES } from "@/routes/search_types.ts";
import { Button } from "@/ui/button.tsx";
import { addFilterClass } from "@/ui/chip.tsx";
import { Checkbox, Field } from "@/ui/field.tsx";
import { Popover } from "@/ui/popover.tsx";
import styles from "./clusters.module.css";
import { RANGE_NAMES } from "./filter.ts";
import { parseCost, parseDuration, parsePackage } from "./filter_text.ts";
import { FLAG_KINDS, FLAG_NAMES } from "./flags.ts";
import { USER_DAYS, useUsers } from "./use_clusters.ts";

interface AddFilterProps {
  name: string;
  onChange(change: Partial<ClustersSearch>): void;
  children(close: (change: Partial<ClustersSearch>) => void): ReactNode;
}

function AddFilter({ name, onChange, children }: AddFilterProps) {
  const [isOpen, setOpen] = useState(false);
  const close = (change: Partial<ClustersSearch>) => {
    setOpen(false);
    onChange(change);
  };
  return (
    <Popover
      title={name}
      isOpen={isOpen}
      onOpenChange={setOpen}
      trigger={
        <button type="button" className={addFilterClass}>
          <span>{name}</span>
        </button>
      }
    >
      {children(close)}
    </Popover>
  );
}

interface TextFormProps {
  label: string;
  hint: string;
  placeholder: string;
  list?: readonly string[];
  /** Returns the reason why a text cannot be a filter. */
  check?(text: string): string | null;
  onDone(text: string): void;
}

function TextForm({ label, hint, placeholder, list, check, onDone }: TextFormProps) {
  const [text, setText] = useState("");
  const [wrong, setWrong] = useState<string | null>(null);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const value = text.trim();
    const reason = value === "" ? hint : (check?.(value) ?? null);
    if (reason) setWrong(reason);
    else onDone(value);
  };
  return (
    <form className={styles.form} onSubmit={submit}>
      <Field
        {...{ label, hint, placeholder, wrong }}
        {...(list ? { list } : {})}
        value={text}
        onChange={(next) => {
          setText(next);
          setWrong(null);
        }}
      />
      <Button type="submit" look="primary">
        Filter
      </Button>
    </form>
  );
}

type Change = (change: Partial<ClustersSearch>) => void;

const DURATION_HINT = "A number with s, m, h or d, such as 30m";
const checkDuration = (text: string) => (parseDuration(text) === null ? DURATION_HINT : null);

/** The buttons for filters that are not set, and for one more tag. */
export function AddFilters({ search, onChange }: { search: ClustersSearch; onChange: Change }) {
  const has = (id: keyof ClustersSearch) => search[id] !== undefined;
  return (
    <>
      {!has("started") && (
        <AddFilter name="Started" onChange={onChange}>
          {(close) => (
            <div className={styles.choices}>
              {RANGES.filter((range) => range !== "all").map((range) => (
                <button
                  key={range}
                  type="button"
                  className={styles.choice}
                  onClick={() => close({ started: range })}
                >
                  {RANGE_NAMES[range]}
                </button>
              ))}
            </div>
          )}
        </AddFilter>
      )}
      {!has("user") && (
        <AddFilter name="User" onChange={onChange}>
          {(close) => <UserForm onDone={(user) => close({ user })} />}
        </AddFilter>
      )}
      {!has("q") && (
        <AddFilter name="Name" onChange={onChange}>
          {(close) => (
            <TextForm
              label="Name contains"
              placeholder="features"
              hint="A part of the cluster's name or of its scheduler's identifier"
              onDone={(q) => close({ q })}
            />
          )}
        </AddFilter>
      )}
      <AddFilter name="Tag" onChange={onChange}>
        {(close) => (
          <TextForm
            label="Tag"
            placeholder="team:risk"
            hint="A word, or a key with its value after a colon"
            onDone={(tag) => close({ tag: [...new Set([...(search.tag ?? []), tag])] })}
          />
        )}
      </AddFilter>
      {!has("flag") && (
        <AddFilter name="Flag" onChange={onChange}>
          {(close) => <FlagForm onDone={(flag) => close({ flag })} />}
        </AddFilter>
      )}
      {!has("cost") && (
        <AddFilter name="Cost at least" onChange={onChange}>
          {(close) => (
            <TextForm
              label="Cost at least"
              placeholder="10"
              hint="An amount, with its currency if it is not that of today's rate: 10 EUR"
              check={(text) => (parseCost(text) ? null : "An amount, such as 10 or 10 EUR")}
              onDone={(cost) => close({ cost })}
            />
          )}
        </AddFilter>
      )}
      {!has("errors") && (
        <AddFilter name="Errors" onChange={onChange}>
          {(close) => (
            <div className={styles.choices}>
              <button type="button" className={styles.choice} onClick={() => close({ errors: "yes" })}>
                with errors
              </button>
              <button type="button" className={styles.choice} onClick={() => close({ errors: "no" })}>
                without errors
              </button>
            </div>
          )}
        </AddFilter>
      )}
      {!has("package") && (
        <AddFilter name="Package" onChange={onChange}>
          {(close) => (
            <TextForm
              label="Package"
              placeholder="dask==2026.*"
              hint="A name, a version behind ==, or the beginning of one with *"
              check={(text) => (parsePackage(text) ? null : "The name of a package")}
              onDone={(wanted) => close({ package: wanted })}
            />
          )}
        </AddFilter>
      )}
      {!has("idle") && (
        <AddFilter name="Idle for" onChange={onChange}>
          {(close) => (
            <TextForm
              label="Without work for at least"
              placeholder="1h"
              hint={DURATION_HINT}
              check={checkDuration}
              onDone={(idle) => close({ idle })}
            />
          )}
        </AddFilter>
      )}
      {!has("lasted") && (
        <AddFilter name="Lasted" onChange={onChange}>
          {(close) => (
            <TextForm
              label="Lasted at least"
              placeholder="30m"
              hint={DURATION_HINT}
              check={checkDuration}
              onDone={(lasted) => close({ lasted })}
            />
          )}
        </AddFilter>
      )}
    </>
  );
}

function UserForm({ onDone }: { onDone(name: string): void }) {
  const users = useUsers(true);
  if (!users) return <p className="faint small">Loading the users</p>;
  const names = users.map(({ name }) => name);
  if (names.length <= 8) {
    return (
      <div className={styles.choices}>
        {names.length === 0 && (
          <p className="faint small">Nobody used a cluster in the last {USER_DAYS} days</p>
        )}
        {names.map((name) => (
          <button key={name} type="button" className={styles.choice} onClick={() => onDone(name)}>
            {name}
          </button>
        ))}
      </div>
    );
  }
  return (
    <TextForm
      label="User"
      placeholder={names[0] ?? ""}
      hint={`One of the ${names.length} users of the last ${USER_DAYS} days`}
      list={names}
      check={(text) => (names.includes(text) ? null : `Nobody called ${text} used a cluster in these days`)}
      onDone={onDone}
    />
  );
}

function FlagForm({ onDone }: { onDone(kinds: FlagKind[]): void }) {
  const [kinds, setKinds] = useState<readonly FlagKind[]>([]);
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (kinds.length > 0) onDone([...kinds]);
      }}
    >
      {FLAG_KINDS.map((kind) => (
        <Checkbox
          key={kind}
          label={FLAG_NAMES[kind]}
          isChecked={kinds.includes(kind)}
          onChange={(isOn) => setKinds(isOn ? [...kinds, kind] : kinds.filter((one) => one !== kind))}
        />
      ))}
      <Button type="submit" look="primary" disabled={kinds.length === 0}>
        Filter
      </Button>
    </form>
  );
}

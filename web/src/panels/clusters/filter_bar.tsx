import type { ClustersSearch } from "@/routes/search_types.ts";
import { FilterChip } from "@/ui/chip.tsx";
import { AddFilters } from "./add_filter.tsx";
import styles from "./clusters.module.css";
import { shownFilters } from "./filter.ts";
import { SaveView } from "./views.tsx";

interface FilterBarProps {
  search: ClustersSearch;
  onSearch(search: ClustersSearch): void;
}

/** The filters that are set, as chips, and buttons for more. */
export function FilterBar({ search, onSearch }: FilterBarProps) {
  return (
    <section className={styles.bar} aria-label="Filters">
      {shownFilters(search).map(({ id, name, value, without }) => (
        <FilterChip key={id} name={name} value={value} onRemove={() => onSearch(without)} />
      ))}
      <AddFilters search={search} onChange={(change) => onSearch({ ...search, ...change })} />
      <span className="grow" />
      <SaveView search={search} onSearch={onSearch} />
    </section>
  );
}

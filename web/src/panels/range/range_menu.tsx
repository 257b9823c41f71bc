import type { Interval } from "@/routes/search.ts";
import { Button } from "@/ui/button.tsx";
import { Icon } from "@/ui/icon.tsx";
import { Menu, MenuItem } from "@/ui/menu.tsx";
import { DAY_RANGES, type DayRange, RANGE_NAMES, rangeName } from "./range.ts";

interface RangeMenuProps {
  range: DayRange | Interval;
  onChange(range: DayRange): void;
}

/** Chooses the days of the page. */
export function RangeMenu({ range, onChange }: RangeMenuProps) {
  return (
    <Menu
      trigger={
        <Button>
          {rangeName(range)} <Icon name="down" size={12} />
        </Button>
      }
    >
      {DAY_RANGES.map((option) => (
        <MenuItem key={option} isChosen={option === range} onSelect={() => onChange(option)}>
          {RANGE_NAMES[option]}
        </MenuItem>
      ))}
    </Menu>
  );
}

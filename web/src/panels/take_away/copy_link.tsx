import { serverPath } from "@/data/base.ts";
import { parseSearch, stringifySearch } from "@/routes/search.ts";
import { CopyButton } from "@/ui/copy_button.tsx";
import { useIsNarrow } from "@/ui/media.ts";

interface CopyLinkProps {
  /** The parts of the address that would mean something else later, as they are now. */
  fixed?: Record<string, string | undefined>;
  /** The path of what is shown, if the page's own may show something else later. */
  path?: string;
}

/** Copies an address that shows the same later and to others. */
export function CopyLink({ fixed = {}, path }: CopyLinkProps) {
  const isNarrow = useIsNarrow();
  const address = () => {
    const search = stringifySearch({ ...parseSearch(location.search), ...fixed });
    return `${location.origin}${path === undefined ? location.pathname : serverPath(path)}${search}`;
  };
  return <CopyButton text={address} label="Copy link" size="normal" isIcon={isNarrow} />;
}

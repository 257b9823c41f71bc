interface SparklineProps {
  /** A sentence that says what the line shows. */
  label: string;
  /** Null is a gap. */
  values: readonly (number | null)[];
  max?: number;
  width?: number;
  height?: number;
  /** A value drawn as a dashed line, such as the threads there are. */
  limit?: number | null;
}

/** A small line without axes. */
export function Sparkline({ label, values, max, width = 120, height = 24, limit }: SparklineProps) {
  const top = max ?? Math.max(limit ?? 0, ...values.map((value) => value ?? 0), Number.MIN_VALUE);
  const x = (index: number) => (values.length > 1 ? (index / (values.length - 1)) * width : width / 2);
  const y = (value: number) => height - 1 - (value / top) * (height - 2);
  return (
    <svg width={width} height={height} viewBox={`0 0 ${width} ${height}`} role="img" aria-label={label}>
      {typeof limit === "number" && (
        <path d={`M0 ${y(limit)}H${width}`} stroke="var(--text-3)" strokeDasharray="2 2" fill="none" />
      )}
      {pieces(values).map(({ start, items }) => {
        const line = items
          .map((value, index) => `${x(start + index).toFixed(1)} ${y(value).toFixed(1)}`)
          .join("L");
        const end = x(start + items.length - 1).toFixed(1);
        return (
          <g key={start}>
            <path
              d={`M${x(start).toFixed(1)} ${height}L${line}L${end} ${height}Z`}
              fill="var(--act-cpu)"
              opacity="0.18"
            />
            <path d={`M${line}`} stroke="var(--act-cpu)" strokeWidth="1.2" fill="none" />
          </g>
        );
      })}
    </svg>
  );
}

/** Returns the runs of values between gaps. */
export function pieces(values: readonly (number | null)[]): { start: number; items: number[] }[] {
  const result: { start: number; items: number[] }[] = [];
  values.forEach((value, index) => {
    if (value === null) return;
    const last = result.at(-1);
    if (last && last.start + last.items.length === index) last.items.push(value);
    else result.push({ start: index, items: [value] });
  });
  return result;
}

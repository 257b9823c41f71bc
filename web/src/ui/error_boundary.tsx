import { Component, type ReactNode } from "react";
import { Button } from "./button.tsx";

interface Props {
  /** The part of the page that is lost: `This panel`. */
  name: string;
  /** The data of the part. It is shown again when they are others. */
  subject?: unknown;
  children: ReactNode;
}

/** Keeps a defect of one part from taking the page with it. */
export class ErrorBoundary extends Component<Props, { error: Error | null }> {
  override state = { error: null as Error | null };

  static getDerivedStateFromError(error: Error) {
    return { error };
  }

  override componentDidUpdate(before: Props) {
    if (this.state.error && before.subject !== this.props.subject) this.setState({ error: null });
  }

  override render() {
    const { error } = this.state;
    if (!error) return this.props.children;
    return <Defect name={this.props.name} error={error} onRetry={() => this.setState({ error: null })} />;
  }
}

/** A defect of the dashboard itself, with its message for a report. */
export function Defect({ name, error, onRetry }: { name: string; error: Error; onRetry(): void }) {
  return (
    <div role="alert">
      <h2 className="h2">{name} stopped working</h2>
      <p className="muted">
        This is a defect of the dashboard. Its message is <code>{error.message}</code>
      </p>
      <Button onClick={onRetry}>Show it again</Button>
    </div>
  );
}

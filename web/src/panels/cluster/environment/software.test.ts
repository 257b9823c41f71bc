import { describe, expect, it } from "vitest";
import { finding, packageRows, processesOf, pythonText, versionsLine, versionsText } from "./software.ts";

const software = (python: string, osRelease = "6.1") => ({
  python,
  executable: "/opt/venv/bin/python",
  os: "Linux",
  osRelease,
  machine: "x86_64",
});

const pyarrow = {
  name: "pyarrow",
  versions: [
    { role: "SCHEDULER" as const, version: "18.1.0", processes: 1 },
    { role: "WORKER" as const, version: "17.0.0", processes: 1200 },
    { role: "WORKER" as const, version: null, processes: 2 },
  ],
};

describe("versions of a package", () => {
  it("are listed by role, and name processes only if those of a role differ", () => {
    expect(versionsText(pyarrow, "SCHEDULER")).toBe("18.1.0");
    expect(versionsText(pyarrow, "WORKER")).toBe("17.0.0 on 1,200, not installed on 2");
    expect(versionsText(pyarrow, "CLIENT")).toBe("not reported");
  });

  it("stand once in a line if all processes have the same", () => {
    const line = (WORKER: string) =>
      versionsLine({ versions: { SCHEDULER: "2.4.6", WORKER, CLIENT: "2.4.6" } });
    expect(line("2.4.6")).toBe("2.4.6 on all");
    expect(line("2.4.5")).toBe("Scheduler 2.4.6 · Workers 2.4.5 · Clients 2.4.6");
  });

  it("of Python are those of the release", () => {
    expect(["3.11.7.final.0", "3.14.0.candidate.2", "3.11.7", null].map(pythonText)).toEqual([
      "3.11.7",
      "3.14.0.candidate.2",
      "3.11.7",
      null,
    ]);
  });

  it("are those of the first process if they do not differ", () => {
    const packages = (...list: [string, string | null][]) => ({
      packages: list.map(([name, version]) => ({ name, version })),
    });
    const scheduler = packages(
      ["python", "3.11.9"],
      ["numpy", "2.3.1"],
      ["lz4", null],
      ["pyarrow", "18.1.0"],
    );
    const rows = packageRows({
      environment: { ...software("3.11.9"), ...scheduler },
      environmentMismatches: [pyarrow],
      firstWorker: { nodes: [{ id: "w", environment: packages(["numpy", "2.3.1"], ["lz4", null]) }] },
      firstClient: { nodes: [{ daskId: "c", environment: null }] },
    });
    expect(rows.map(({ name, versions, differs }) => [name, ...Object.values(versions), differs])).toEqual([
      ["pyarrow", "18.1.0", "17.0.0 on 1,200, not installed on 2", "not reported", true],
      ["lz4", "not installed", "not installed", "not reported", false],
      ["numpy", "2.3.1", "2.3.1", "not reported", false],
    ]);
  });

  it("say which packages a process did not look up", () => {
    const rows = packageRows({
      environment: { ...software("3.11.9"), packages: [{ name: "numpy", version: "2.3.1" }] },
      environmentMismatches: [],
      firstWorker: { nodes: [{ id: "w", environment: { packages: [] } }] },
      firstClient: { nodes: [] },
    });
    expect(rows.map(({ versions }) => Object.values(versions))).toEqual([
      ["2.3.1", "not looked up", "not reported"],
    ]);
  });
});

describe("processes", () => {
  const processes = processesOf({
    environment: { ...software("3.11.9"), packages: [] },
    workers: {
      totalCount: 4,
      nodes: [
        { id: "1", name: "w-1", environment: software("3.11.9") },
        { id: "2", name: "w-2", environment: software("3.11.9", "6.6") },
        { id: "3", name: "w-3", environment: software("3.11.9") },
        { id: "4", name: "w-4", environment: null },
      ],
    },
    clients: { totalCount: 0, nodes: [] },
  });

  it("are grouped by role and software", () => {
    expect(processes.map((group) => [group.role, group.software?.osRelease ?? null, group.count])).toEqual([
      ["SCHEDULER", "6.1", 1],
      ["WORKER", "6.1", 2],
      ["WORKER", "6.6", 1],
      ["WORKER", null, 1],
    ]);
  });

  it("are alike for certain only if all have reported", () => {
    const known = processes.filter((group) => group.software !== null);
    expect(finding([], known)).toEqual({ verdict: "GOOD", title: "All processes have the same versions" });
    expect(finding([], processes)).toEqual({
      verdict: "UNKNOWN",
      title: "No difference is known; 1 of 5\u00a0processes did not report",
    });
    expect(finding([pyarrow], known)).toEqual({
      verdict: "NOTICE",
      title: "1\u00a0package differs between processes",
    });
    const silent = processes.filter((group) => group.software === null);
    expect(finding([], silent)).toEqual({ verdict: "UNKNOWN", title: "The software was not reported" });
  });
});

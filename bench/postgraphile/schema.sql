-- Additions to the benchmark's database that a user of PostGraphile would make for its operations.

-- The database has no foreign keys for these relations.
COMMENT ON TABLE computation_task_groups IS
  E'@foreignKey (account_id, cluster_id, computation_id) references computations (account_id, cluster_id, id)\n'
  '@foreignKey (account_id, cluster_id, task_group_id) references task_groups (account_id, cluster_id, id)';
COMMENT ON TABLE usage_days IS '@foreignKey (user_id) references users (id)';

-- Sums and ranges need functions, because PostGraphile has neither without plugins.
CREATE TYPE account_totals AS (
  clusters bigint, users bigint, thread_us bigint, compute_us bigint, idle_us bigint, tasks bigint, errors bigint,
  bytes bigint);

CREATE FUNCTION account_statistics(account uuid, from_day bigint, to_day bigint) RETURNS account_totals
LANGUAGE sql STABLE AS $$
  SELECT
    (SELECT count(*) FROM clusters WHERE account_id = account AND ended_key >= from_day * 86400000
      AND started_at + duration_ms >= from_day * 86400000 AND started_at < to_day * 86400000),
    count(DISTINCT user_id), sum(thread_us)::bigint, sum(compute_us)::bigint, sum(idle_us)::bigint, sum(tasks)::bigint,
    sum(errors)::bigint, sum(bytes)::bigint
  FROM usage_days WHERE account_id = account AND day >= from_day AND day < to_day
$$;

CREATE FUNCTION usage_table(account uuid, from_day bigint, to_day bigint) RETURNS SETOF usage_days
LANGUAGE sql STABLE AS $$
  SELECT * FROM usage_days WHERE account_id = account AND day >= from_day AND day < to_day
$$;

CREATE TYPE fine_metric_total AS (context text, function text, activity text, unit text, value double precision);

CREATE FUNCTION cluster_fine_metrics(account uuid, cluster bigint, of_unit text) RETURNS SETOF fine_metric_total
LANGUAGE sql STABLE AS $$
  SELECT context, function, activity, unit, sum(value) AS value FROM fine_metric_rows
  WHERE account_id = account AND cluster_id = cluster AND unit = of_unit
  GROUP BY context, function, activity, unit ORDER BY value DESC LIMIT 1000
$$;

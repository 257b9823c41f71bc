//! The codes of phrases, each with its condition and its text. [`super::phrase`] defines the form
//! of the texts. A text contains no digits: every number of a headline is an argument.

use super::Question;

/// Passes all codes to the macro `$declare`, so that the domain and the GraphQL schema declare the same
/// ones. The codes of answers stand below the questions that they answer. Below no question stand first
/// the qualifications, and then the evidence and the parts that headlines name.
macro_rules! answer_codes {
    ($declare:ident) => {
        $declare! {
            [Finished]
            /// The last computation failed.
            LastComputationFailed = "The last computation failed; {finished} of {computations} finished";
            /// The last computation was cancelled.
            LastComputationCancelled = "The last computation was cancelled before it was done; {finished} of {computations} finished";
            /// The cluster closed without reporting the end of the last computation.
            LastComputationOpenAtClose = "Whether the last computation finished is not known, since its cluster closed without reporting it; {finished} of {computations} did";
            /// The cluster stopped reporting before the end of the last computation.
            LastComputationOpenInSilence = "Whether the last computation finished is not known, since its cluster stopped reporting; {finished} of {computations} did";
            /// Computations run.
            ComputationsRunning = "{running} of {computations} computations {running:is/are} still running";
            /// Computations ran at the last report, which is older than the allowed silence.
            ComputationsRanWhenLastSeen = "{running} of {computations} computations had not finished at the last report of the cluster, {silence} ago";
            /// The last computation finished, and earlier ones did not.
            EarlierComputationsUnfinished = "The last computation finished, but {unfinished} of {computations} did not";
            /// All computations finished.
            AllComputationsFinished = "{computations:The/All} {computations} {computations:computation/computations} finished";
            /// The cluster closed without a task.
            NothingEverSubmitted = "No work was submitted: {tasks} tasks";
            /// The cluster has had no task so far.
            NothingSubmittedYet = "No work was submitted so far: {tasks} tasks";
            /// The reports have no task and hold only a part of the work.
            SubmissionUnknown = "Whether anything was submitted is not known";
            /// The cluster had tasks, and no computation is stored.
            ComputationsNotStored = "{tasks} {tasks:task was/tasks were} submitted, but no computations are stored";

            [Exceptions]
            /// The reports have no task that ended and hold only a part of the work.
            FailuresUnknown = "Whether tasks failed is not known";
            /// No task failed, and no exception was recorded.
            NoExceptions = "No exceptions: {failed} tasks failed and {succeeded} {succeeded:task/tasks} succeeded";
            /// Tasks failed, and none of their exceptions is stored.
            ExceptionsOfTasksNotStored = "{failed} {failed:task/tasks} failed, but their exceptions are not stored";
            /// Exceptions were recorded, and none of them is stored.
            ExceptionsNotStored = "{recorded} {recorded:exception was/exceptions were} recorded, but not stored";
            /// All exceptions come from the computations' own code.
            ExceptionsOfCode = "{exceptions} {exceptions:exception/exceptions}, all of the computations' own code";
            /// All exceptions come from Dask.
            ExceptionsOfDask = "{exceptions} {exceptions:exception/exceptions}, all of Dask itself";
            /// All exceptions are of unknown cause.
            ExceptionsOfUnknownCause = "{exceptions} {exceptions:exception/exceptions}, all of unknown cause";
            /// Some exceptions come from the computations' own code, and some do not.
            ExceptionsOfCodeAndOthers = "{exceptions} exceptions: {ofCode} of the computations' own code[, {ofDask} of Dask itself][, {ofUnknownCause} of unknown cause]";
            /// Some exceptions come from Dask, and the others are of unknown cause.
            ExceptionsOfDaskAndUnknownCause = "{exceptions} exceptions: {ofDask} of Dask itself, {ofUnknownCause} of unknown cause";

            [Cost]
            /// No usage was reported.
            NoUsage = "No usage was reported: {hours} hours to price";
            /// The account has a rate for every day. There is one cost for each currency.
            CostByRates = "It cost {cost} by the account's rates[, {idleShare} of it while threads were idle]";
            /// The account has a rate for none of the days.
            CostEstimated = "It cost {cost}[, {idleShare} of it while threads were idle], estimated at {rate} per thread-hour, as no rate is set: setCostRate sets one";
            /// The account has a rate for some of the days.
            CostPartlyEstimated = "It cost {cost} by the account's rates, and {estimated} on days without a rate, estimated at {rate} per thread-hour, as no rate is set: setCostRate sets one";

            [TopTime]
            /// No task has computed.
            NothingComputed = "No task computed so far: {computed} of thread time";
            /// Tasks computed, and the times of their functions are not stored.
            FunctionsNotStored = "{computed} of thread time was computed, but the times of the functions are not stored";
            /// One function takes the most time. `busy` is given if threads computed in less than half of
            /// the time.
            TopFunction = "{function} takes {time} of thread time[, {share} of what was computed][; but threads computed only {busy} of the time]";

            [WhyRunning]
            /// The imported file ended, and the cluster perhaps did not.
            ImportEnded = "Whether it runs is not known: the file that it was imported from ends at {ended}, {age} ago";
            /// The cluster closed.
            ClusterClosed = "It is not running: it closed at {closed}, {age} ago[: {reason}]";
            /// No report arrived for longer than the allowed silence.
            ClusterSilent = "Whether it runs is not known: it has not reported for {silence}, though it reports every {interval}";
            /// Workers process tasks.
            TasksAreProcessed = "It works: {tasks} {tasks:task is/tasks are} processed by its {workers} {workers:worker/workers}[, but no worker may run {unrunnable} others]";
            /// No task is processed, and no worker may run some tasks.
            NoWorkerMayRunTasks = "{tasks} {tasks:task waits/tasks wait} for a worker that may run {tasks:it/them}: the cluster has {workers} {workers:worker/workers}, and none may run {tasks:it/them}";
            /// No task is processed, and tasks are queued.
            TasksAreQueued = "{tasks} {tasks:task is/tasks are} queued for a free thread, and none runs on its {workers} {workers:worker/workers}";
            /// The scheduler processes graphs, and no task can run.
            SchedulerProcessesGraphs = "Its scheduler processes {graphs} {graphs:graph/graphs}";
            /// Tasks wait for other tasks, and none runs.
            TasksWait = "{tasks} {tasks:task waits/tasks wait} for others, and none runs on its {workers} {workers:worker/workers}";
            /// The cluster has work, and no sample counts its tasks.
            WorkNotSampled = "Its scheduler has work on {workers} {workers:worker/workers}, but no sample counts its tasks";
            /// The cluster has no tasks and does not count as idle.
            NoTasksNotIdle = "It has {tasks} tasks to do on its {workers} {workers:worker/workers}, and its scheduler does not count it as idle";
            /// The cluster is idle, and clients hold results.
            ClientsHoldResults = "{clients} {clients:client holds/clients hold} {results} {results:result/results} in its memory; it has had no work for {idle}, since {since}";
            /// The cluster is idle, and no client is known to hold results.
            ClusterIdle = "It is idle: it has had no work for {idle}, since {since}";

            [Gil]
            /// No worker measured the GIL.
            GilNotMeasured = "GIL contention was not measured: install gilknocker on the workers, and Dask {release} or newer measures it";
            /// The GIL was measured.
            GilBusy = "The GIL was busy {share} of the last {period}";

            [EventLoop]
            /// No event loop was measured.
            EventLoopsNotMeasured = "How long event loops were blocked is not known: no sample of this period measures it";
            /// The event loop of the median worker was blocked most. `usual` is given if it differs from
            /// `tick` by a millisecond.
            WorkerEventLoopsBlocked = "In the last {period} the workers' event loops were blocked {share} of the time: a tick took {tick}[ instead of {usual}/, the usual time]";
            /// The event loop of the scheduler was blocked most. `usual` is given if it differs from `tick`
            /// by a millisecond.
            SchedulerEventLoopBlocked = "In the last {period} the scheduler's event loop was blocked {share} of the time: a tick took {tick}[ instead of {usual}/, the usual time]";

            [Network]
            /// No times of transfers are stored.
            TransfersNotStored = "How long workers received data is not stored";
            /// The idle time of threads is unknown.
            TransfersNotAttributable = "Workers received data for {time} beside their tasks, and its cost is not known without the threads' idle time";
            /// Threads were idle in less than half of the time.
            TransfersBesideTasks = "Workers received data for {time}, beside their tasks: threads were idle {idleShare} of the time, and it cost no more than that";
            /// Threads were idle in half of the time or more, and transfers took less than a tenth of that.
            IdleForOtherReasons = "Workers received data for {time}, and threads were idle {idleShare} of the time, most of which must have other reasons";
            /// Threads were idle in half of the time or more, and transfers took a tenth of that or more.
            IdlePerhapsForTransfers = "Workers received data for {time}, and threads were idle {idleShare} of the time, which they may have spent waiting for it";

            [Spill]
            /// No times of spilling are stored.
            SpillingNotStored = "How long results were moved to disk and back is not stored";
            /// Nothing was spilled.
            NoSpilling = "No time was lost to spilling: {time}";
            /// Only memory monitors spilled, beside the tasks.
            SpillingNotAttributable = "{written} were written to disk beside the tasks, and the time that tasks lost is not known";
            /// Tasks moved results. `memoryReads` is given if nine tenths of the reads or more were
            /// answered from memory.
            TasksSpilled = "Tasks spent {time} of thread time on moving results to disk and back[, {share} of it all][; {memoryReads} of reads were answered from memory, so more of it would help little]";

            [Cpu]
            /// No times of tasks are stored.
            CpuTimeNotStored = "How long tasks held threads without using the CPU is not stored";
            /// No task has held a thread.
            NoTaskRan = "No task ran so far: {time} of thread time";
            /// Tasks held threads.
            ThreadsHeldWithoutCpu = "Tasks held threads for {time} without using the CPU, {share} of their time[, most of it in {function}]";

            [WhatChanged, Slower, Scaling]
            /// The cluster has no earlier run to compare it with.
            NoBaseline = "No earlier run can be compared with it: no earlier cluster of its user closed without errors and has the same name, the same outermost spans or most of its functions; ask with a baseline";

            [WhatChanged]
            /// No known property differs.
            NothingChanged = "No known property changed since cluster {cluster}: {changes} changes";
            /// Some properties differ. The first three are named, and `more` counts the others.
            ThingsChanged = "{changes} {changes:thing/things} changed since cluster {cluster}: {*}[ and {more} more]";

            [Slower, Scaling]
            /// The times of the later work are not stored in full.
            TimesNotStored = "Where the thread time of it went is not stored in full: Dask {release} and newer report it once tasks ran, unless the account refuses the data class {class}";
            /// The times of the earlier work are not stored in full.
            EarlierTimesNotStored = "Where the thread time of [cluster {cluster}/the first work] went is not stored in full: Dask {release} and newer report it once tasks ran, unless the account refuses the data class {class}";
            /// The times of both selections of work are not stored in full.
            TimesOfBothNotStored = "Where the thread time of both went is not stored in full: Dask {release} and newer report it once tasks ran, unless the account refuses the data class {class}";

            [Slower]
            /// The later work took as much thread time. `grown` is given if a part of it took more.
            AsMuchTime = "It spent {time} of thread time, as much as [cluster {cluster}/the first work][; {grown} more in {*}]";
            /// The later work took less thread time. `grown` is given if a part of it took more.
            LessTime = "It spent {time} of thread time, {less} less than [cluster {cluster}/the first work][; {grown} more in {*}]";
            /// The later work took more thread time.
            MoreTime = "It spent {time} of thread time, {more} more than [cluster {cluster}/the first work], {growth}[; {grown} more in {*}]";

            [Scaling]
            /// The tasks of one of the two runs used no CPU.
            ScalingUnknown = "How well it scales is not known: the tasks of one of the two used no CPU, {time}";
            /// The run lost no more than the earlier one for the same work. `threadsBefore` is given if it
            /// differs.
            NoMoreTimeLost = "With {threads} {threads:thread/threads} [instead of {threadsBefore}/as before], tasks used the CPU for {share} of the thread time, and for {shareBefore} in cluster {cluster}: no more time was lost, {lost}";
            /// The run lost more than the earlier one for the same work. `threadsBefore` is given if it
            /// differs.
            MoreTimeLost = "With {threads} {threads:thread/threads} [instead of {threadsBefore}/as before], tasks used the CPU for {share} of the thread time, and for {shareBefore} in cluster {cluster}: {lost} more were lost than there for the same work[, most of it to {*}]";

            []
            /// The account refuses the data.
            ClassRefused = "…, because the account refuses the data class {class}: setDataPolicy accepts it";
            /// The scheduler withheld the data, or the server dropped it.
            ClassWithheld = "…, because data of the class {class} was withheld or dropped: see the cluster's privacy receipt";
            /// The data is missing, and none is known to be withheld or dropped.
            NoneWithheld = "…, and none was withheld or dropped: it may be older than such data is kept";
            /// The scheduler discarded exceptions.
            TooManyAtOnce = "…, because there were more at once than its scheduler keeps";
            /// This release of Dask does not report the data, or no task has run.
            NeedsNewerDask = "…, Dask {release} and newer report it once tasks ran";
            /// The reports hold only a part of the work. `reason` is a sentence of the reporter.
            PartOfTheWork = "…. {reason}";
            /// Further exceptions were recorded and are not stored.
            MoreNotStored = "At least …. {notStored} {notStored:more is/more are} not stored";
            /// The cluster was requested to stop.
            StopRequested = "It was requested to stop, and has not stopped yet. …";
            /// No worker ever had a second thread.
            OneThreadEach = "…, but with {threads} thread a worker no task waits for another";
            /// Tasks held threads without the CPU for three tenths of their time or more.
            LookForGilContention = "…: look for GIL contention first, then for what they wait for";
            /// The software of one of the two runs is unknown.
            SoftwareNotStored = "…; what software one of the two ran on is not stored";
            /// The answer holds for the period in which the cluster is known.
            KnownPeriod = "…, [from {since} to {until}; the time before and after is unknown/from {since} on; the time before is unknown/up to {until}; the time after is unknown]";
            /// The answer claims nothing, and the cluster is known for a period only.
            UnknownOutside = "…. The time [before {since} and after {until}/before {since}/after {until}] is unknown";
            /// One of two compared works is known for a period only. `work` is `first` or `second`.
            WorkKnownPeriod = "…. [Cluster {cluster}/The {work} work] is known [from {since} to {until}; the time before and after is unknown/from {since} on; the time before is unknown/up to {until}; the time after is unknown]";
            /// Earlier reports have not arrived.
            ReportsMissing = "…. Some of [the reports of cluster {cluster}/the reports of the {work} work/its reports] have not arrived, and their content is unknown";
            /// The scheduler withheld data of the class, or the server dropped some.
            SomeWithheld = "…. Data of the class {class} was withheld or dropped: see the privacy receipt of [cluster {cluster}/the {work} work/the cluster]";
            /// The reporter discarded items that the answer is based on.
            ItemsNotReported = "…. {items}[ of cluster {cluster}/ of the {work} work] {items:was/were} not reported";
            /// The server clamped impossible values that the answer is based on.
            ValuesClamped = "…. Impossible values of the reported {sections}[ of cluster {cluster}/ of the {work} work] were clamped";
            /// The work belongs to several clusters, and some of them are known only in part.
            ClustersKnownInPart = "…. {known} of {clusters} clusters of the {work} work {known:is/are} known in part[, the first of them up to {until}]";

            []
            /// A computation that runs.
            ComputationRunning = "Computation of {startedAt}, running";
            /// A computation that finished.
            ComputationFinished = "Computation of {startedAt}, finished";
            /// A computation that failed.
            ComputationFailed = "Computation of {startedAt}, failed";
            /// A computation that was cancelled.
            ComputationCancelled = "Computation of {startedAt}, cancelled";
            /// A computation whose end is unknown.
            ComputationLost = "Computation of {startedAt}, lost";
            /// Exceptions of one group, from the computations' own code.
            ErrorsOfCode = "[{exception}/exception], of the code";
            /// Exceptions of one group, from Dask.
            ErrorsOfDask = "[{exception}/exception], of Dask";
            /// Exceptions of one group, of unknown cause.
            ErrorsOfUnknownCause = "[{exception}/exception], of unknown cause";
            /// A worker that was killed because of its memory, with its tasks.
            WorkerKilled = "Worker {worker}, killed over its memory while it processed";
            /// A worker that was lost, with its tasks.
            WorkerLost = "Worker {worker}, lost while it processed";
            /// The thread time that was paid.
            ThreadTime = "Thread time, busy or idle";
            /// The cost in one currency, by the account's rates.
            CostInCurrency = "By the rates in this currency";
            /// The cost of days without a rate.
            CostWithoutRate = "Days without a rate, estimated";
            /// The compute time of a function.
            FunctionTime = "{function}";
            /// The number of tasks that are processed.
            TasksProcessing = "Tasks being processed";
            /// The number of tasks that are queued.
            TasksQueued = "Tasks queued until a thread is free";
            /// The number of tasks that no worker may run.
            TasksWithoutWorker = "Tasks no worker may run";
            /// The number of results in memory.
            ResultsInMemory = "Results in memory";
            /// The number of connected clients.
            ClientsConnected = "Clients connected";
            /// The largest busy share of the GIL on any worker.
            GilOfBusiestWorker = "Busiest on any worker";
            /// The time for which tasks held threads without the CPU.
            ThreadsHeld = "Threads held without using the CPU, for this or other reasons";
            /// The mean interval between ticks of the median worker.
            TickOfMedianWorker = "A tick of the median worker";
            /// The longest interval between ticks of any worker.
            SlowestTickOfWorkers = "The slowest tick of any worker";
            /// The mean interval between ticks of the scheduler.
            TickOfScheduler = "A tick of the scheduler";
            /// The longest interval between ticks of the scheduler.
            SlowestTickOfScheduler = "The slowest tick of the scheduler";
            /// The time for which workers received data.
            TimeReceiving = "Receiving data from other workers";
            /// The bytes that workers received.
            BytesReceived = "Received";
            /// The time for which workers sent data.
            TimeSending = "Sending data to other workers";
            /// The idle time of threads.
            ThreadsIdle = "Threads without a task, for this or other reasons";
            /// The bytes that were spilled.
            BytesWritten = "Written to disk";
            /// The time for which memory monitors spilled, beside the tasks.
            TimeOfMemoryMonitors = "Spilling of memory monitors beside the tasks";
            /// The share of reads of results that were answered from memory.
            ReadsFromMemory = "Reads of results that were in memory";
            /// The time for which the tasks of a function held threads without the CPU.
            FunctionWithoutCpu = "{function}, {share} of its time";
            /// The baseline that the caller selected.
            BaselineAsRequested = "Compared with cluster {cluster} of {startedAt}, as requested";
            /// The baseline with the same name.
            BaselineByName = "Compared with cluster {cluster} of {startedAt}, the last good run with the same name";
            /// The baseline with the same outermost spans.
            BaselineBySpans = "Compared with cluster {cluster} of {startedAt}, the last good run with the same outermost spans";
            /// The baseline with most of the functions.
            BaselineByFunctions = "Compared with cluster {cluster} of {startedAt}, the last good run with most of its functions";
            /// A package, Python or the platform changed. There is one value for each version.
            SoftwareChanged = "{name} {from} → {to}";
            /// Only the later run has a package.
            SoftwareAdded = "{name} {to} was added";
            /// Only the earlier run has a package.
            SoftwareRemoved = "{name} {from} was removed";
            /// The code that called Dask changed.
            CodeChanged = "the code that called Dask";
            /// The peak number of workers changed.
            PeakWorkersChanged = "workers at most {from} → {to}";
            /// The peak number of threads changed.
            PeakThreadsChanged = "threads at most {from} → {to}";
            /// The number of threads of a worker changed.
            WorkerThreadsChanged = "threads of a worker {from} → {to}";
            /// The memory limit of a worker changed.
            WorkerMemoryChanged = "memory limit of a worker {from} → {to}";
            /// The memory limit of a worker changed by less than the usual units show.
            WorkerMemoryChangedSlightly = "memory limit of a worker {from} → {to} bytes";
            /// The time of tasks in a span, a function and an activity, as far as they are known.
            TimeOfTasks = "[{span}, {function}, {activity}/{span}, {function}/{span}, {activity}/{function}, {activity}/{span}/{function}/{activity}/tasks]";
            /// The idle time of threads.
            TimeOfIdleThreads = "threads without a task";
            /// Thread time without any measurement.
            TimeNotMeasured = "time of which nothing was measured";
        }
    };
}

macro_rules! declare {
    ($([$($question:ident),*] $($(#[doc = $doc:tt])+ $code:ident = $text:literal;)+)+) => {
        /// The code of a phrase. It stays the same as long as the phrase has the same meaning and
        /// the same arguments.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum AnswerCode {
            $($($(#[doc = $doc])+ $code,)+)+
        }

        impl AnswerCode {
            /// All codes, in the order of the documentation.
            pub const ALL: &[Self] = &[$($(Self::$code,)+)+];

            /// Returns the text with the places of its arguments.
            #[must_use]
            pub fn template(self) -> &'static str {
                match self { $($(Self::$code => $text,)+)+ }
            }

            /// Returns the condition under which the code is given.
            #[must_use]
            pub fn condition(self) -> &'static str {
                match self { $($(Self::$code => concat!($($doc),+).trim_ascii(),)+)+ }
            }

            /// Returns the questions that the code answers. Qualifications and evidence answer none.
            #[must_use]
            pub fn questions(self) -> &'static [Question] {
                match self { $($(Self::$code)|+ => &[$(Question::$question),*],)+ }
            }
        }
    };
}

answer_codes!(declare);

pub(crate) use answer_codes;

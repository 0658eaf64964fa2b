#!/usr/bin/env bash
# Beam's job server for Flink or Spark on this machine, for as long as a command runs:
#
#     ./cluster.sh flink scale m.attach --x 'day-*.npz' -o audit --runner=flink --endpoint=localhost:8099 --parallelism=2
#     ./cluster.sh spark scale m.attach --x 'day-*.npz' -o audit --runner=spark --endpoint=localhost:8099
#
# Without a command it runs until it is interrupted. It needs Java and Maven, which fetches
# the jars of flink.xml or spark.xml on first use. Flink is a cluster of two TaskManagers
# here. Spark runs jobs in the job server. MASTER is another address for the jobs: of Flink,
# such as '[local]', or of Spark instead of local[2,4]. CLUSTER_DIR is where logs and process
# ids go, and BEAM_PORT, REST_PORT and RPC_PORT are ports.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
engine=${1:-}
case $engine in
  flink | spark) shift ;;
  *)
    echo "cluster.sh: the first argument is the engine: flink or spark" >&2
    exit 2
    ;;
esac
jars=${CLUSTER_JARS:-${XDG_CACHE_HOME:-$HOME/.cache}/attach/$engine}
dir=${CLUSTER_DIR:-$(mktemp -d)}
rest=${REST_PORT:-8081} rpc=${RPC_PORT:-6123} beam=${BEAM_PORT:-8099}

if [ ! -e "$jars/complete" ]; then
  mkdir -p "$jars"
  mvn --quiet --batch-mode --file "$here/$engine.xml" dependency:copy-dependencies -DoutputDirectory="$jars" >&2
  touch "$jars/complete"
fi

pids=()
stop() {
  kill "${pids[@]}" 2>/dev/null || true
  wait "${pids[@]}" 2>/dev/null || true
}
trap stop EXIT
trap 'exit 130' INT TERM

opens=()
for package in java.io java.lang java.lang.invoke java.lang.reflect java.math java.net java.nio java.text java.time java.util java.util.concurrent java.util.concurrent.atomic sun.nio.ch sun.nio.cs sun.security.action sun.util.calendar; do
  opens+=("--add-opens=java.base/$package=ALL-UNNAMED")
done
run() { # NAME CLASS ARGUMENTS…
  local name=$1 class=$2
  shift 2
  java -Xmx512m "${opens[@]}" -cp "$jars/*" "$class" "$@" > "$dir/$name.log" 2>&1 &
  pids+=($!)
  echo $! > "$dir/$name.pid"
}
await() { # NAME PORT
  for _ in $(seq 240); do
    if (exec 3<>"/dev/tcp/localhost/$2") 2>/dev/null; then return; fi
    kill -0 "$(cat "$dir/$1.pid")" 2>/dev/null || break
    sleep .5
  done
  echo "cluster.sh: $1 does not listen on port $2; see $dir/$1.log" >&2
  exit 1
}
job_server() { # CLASS ARGUMENTS…
  run jobserver "$@" --job-port="$beam" --artifact-port=0 --expansion-port=0 --artifacts-dir="$dir/artifacts"
  await jobserver "$beam"
}

flink() {
  local master=${MASTER:-localhost:$rest}
  mkdir -p "$dir/conf" "$dir/tmp"
  cat > "$dir/conf/config.yaml" <<CONF
jobmanager.rpc.address: localhost
jobmanager.rpc.port: $rpc
jobmanager.memory.process.size: 768m
rest.port: $rest
rest.address: localhost
taskmanager.host: localhost
taskmanager.numberOfTaskSlots: 2
taskmanager.cpu.cores: 1.0
taskmanager.memory.framework.heap.size: 128m
taskmanager.memory.framework.off-heap.size: 64m
taskmanager.memory.task.heap.size: 256m
taskmanager.memory.task.off-heap.size: 0m
taskmanager.memory.managed.size: 64m
taskmanager.memory.network.min: 64m
taskmanager.memory.network.max: 64m
taskmanager.memory.jvm-metaspace.size: 256m
taskmanager.memory.jvm-overhead.min: 64m
taskmanager.memory.jvm-overhead.max: 64m
cluster.evenly-spread-out-slots: true
heartbeat.interval: 1000
heartbeat.timeout: 8000
restart-strategy.type: fixed-delay
restart-strategy.fixed-delay.attempts: 5
restart-strategy.fixed-delay.delay: 1s
io.tmp.dirs: $dir/tmp
CONF
  if [ "$master" != '[local]' ]; then
    run jobmanager org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint --configDir "$dir/conf" --executionMode cluster
    await jobmanager "$rest"
    run taskmanager-1 org.apache.flink.runtime.taskexecutor.TaskManagerRunner --configDir "$dir/conf" -D taskmanager.resource-id=one
    run taskmanager-2 org.apache.flink.runtime.taskexecutor.TaskManagerRunner --configDir "$dir/conf" -D taskmanager.resource-id=two
  fi
  job_server org.apache.beam.runners.flink.FlinkJobServerDriver --flink-master="$master" --flink-conf-dir="$dir/conf"
  if [ "$master" != '[local]' ]; then
    for _ in $(seq 240); do
      case $(curl -s "http://localhost:$rest/overview") in *'"taskmanagers":2'*) break ;; esac
      sleep .5
    done
  fi
}

spark() {
  job_server org.apache.beam.runners.spark.SparkJobServerDriver --spark-master-url="${MASTER:-local[2,4]}"
}

"$engine"
if [ $# -gt 0 ]; then
  "$@"
else
  echo "The job server is at localhost:$beam, logs are in $dir; interrupt to stop"
  wait
fi

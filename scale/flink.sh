#!/usr/bin/env bash
# A Flink cluster of two TaskManagers on this machine and Beam's job server for it, for as
# long as a command runs:
#
#     ./flink.sh scale m.attach --x 'day-*.npz' -o audit --runner=flink --endpoint=localhost:8099 --parallelism=2
#
# Without a command it runs until it is interrupted. It needs Java and Maven, which fetches
# 160 jars (150 MB) on first use. FLINK_DIR is where logs and process ids go, FLINK_MASTER='[local]'
# has the job server run jobs by itself, and BEAM_PORT, REST_PORT and RPC_PORT are its ports.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
jars=${FLINK_JARS:-${XDG_CACHE_HOME:-$HOME/.cache}/attach/flink}
dir=${FLINK_DIR:-$(mktemp -d)}
rest=${REST_PORT:-8081} rpc=${RPC_PORT:-6123} beam=${BEAM_PORT:-8099}
master=${FLINK_MASTER:-localhost:$rest}

if [ ! -e "$jars/complete" ]; then
  mkdir -p "$jars"
  mvn --quiet --batch-mode --file "$here/flink.xml" dependency:copy-dependencies -DoutputDirectory="$jars" >&2
  touch "$jars/complete"
fi

pids=()
stop() {
  kill "${pids[@]}" 2>/dev/null || true
  wait "${pids[@]}" 2>/dev/null || true
}
trap stop EXIT
trap 'exit 130' INT TERM

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

opens=()
for package in java.lang java.lang.invoke java.math java.net java.nio java.text java.time java.util java.util.concurrent sun.nio.ch; do
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
  echo "flink.sh: $1 does not listen on port $2; see $dir/$1.log" >&2
  exit 1
}

if [ "$master" != '[local]' ]; then
  run jobmanager org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint --configDir "$dir/conf" --executionMode cluster
  await jobmanager "$rest"
  run taskmanager-1 org.apache.flink.runtime.taskexecutor.TaskManagerRunner --configDir "$dir/conf" -D taskmanager.resource-id=one
  run taskmanager-2 org.apache.flink.runtime.taskexecutor.TaskManagerRunner --configDir "$dir/conf" -D taskmanager.resource-id=two
fi
run jobserver org.apache.beam.runners.flink.FlinkJobServerDriver --flink-master="$master" --job-port="$beam" --artifact-port=0 --expansion-port=0 \
  --artifacts-dir="$dir/artifacts" --flink-conf-dir="$dir/conf"
await jobserver "$beam"
if [ "$master" != '[local]' ]; then
  for _ in $(seq 240); do
    case $(curl -s "http://localhost:$rest/overview") in *'"taskmanagers":2'*) break ;; esac
    sleep .5
  done
fi

if [ $# -gt 0 ]; then
  "$@"
else
  echo "Flink is at http://localhost:$rest, the job server at localhost:$beam, logs are in $dir; interrupt to stop"
  wait
fi

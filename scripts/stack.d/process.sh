# shellcheck shell=bash
# Processes of the stack: which run, whether they answer, and how they end. Sourced by scripts/stack.
# shellcheck disable=SC2154 # which sets what is not set here

fail() {
  echo "scripts/stack: $*" >&2
  exit 1
}

# Where clients find the service $1.
address() {
  local port="${1^^}_PORT"
  echo "127.0.0.1:${!port}"
}

is_open() {
  (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

# Whether the process that was started for the service $1 still runs. Process ids are given again, so
# its command must name this directory as well.
alive() {
  local pid
  pid=$(cat "$dir/$1/pid" 2>/dev/null) || return 1
  [[ $(tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline") == *"$(mark "$1") "* ]]
}

# The argument by which the process of the service $1 is known.
mark() {
  case "$1" in
    redis) echo "--dir $dir/redis/data" ;;
    *) echo "-Dquipu.stack=$dir/$1" ;;
  esac
}

# Starts the command after $1, the service, in a session of its own: an interrupt of this script is none
# of its own.
launch() {
  local name=$1
  shift
  if [[ -e $dir/$name/log ]]; then
    mv "$dir/$name/log" "$dir/$name/log.old"
  fi
  setsid "$@" >"$dir/$name/log" 2>&1 </dev/null 9>&- &
  echo $! >"$dir/$name/pid"
  echo "$name: starting on $(address "$name"), log $dir/$name/log"
}

kafka_healthy() {
  grep -q 'Kafka Server started' "$dir/kafka/log" && is_open "$KAFKA_PORT"
}

# Asks for OPTIONS in version 4 of its protocol; an answer begins with the version and the highest bit.
cassandra_healthy() {
  [[ $(ask "$CASSANDRA_PORT" '\x04\0\0\0\x05\0\0\0\0') == 84* ]]
}

redis_healthy() {
  [[ $(ask "$REDIS_PORT" 'PING\r\n') == 2b504f4e47 ]] # +PONG
}

# Sends the bytes $2 to the port $1, and prints the first five of the answer in hexadecimal.
ask() {
  (
    exec 3<>"/dev/tcp/127.0.0.1/$1"
    printf '%b' "$2" >&3
    timeout 2 head -c 5 <&3 | od -An -tx1 | tr -d ' \n'
  ) 2>/dev/null || true
}

show_log() {
  echo "--- the end of $dir/$1/log:" >&2
  tail -n 25 "$dir/$1/log" >&2
  echo "---" >&2
}

# Returns when every service answers.
wait_until_healthy() {
  local name told=$SECONDS waiting=("${services[@]}") still
  while [[ ${#waiting[@]} -gt 0 ]]; do
    still=()
    for name in "${waiting[@]}"; do
      if "${name}_healthy"; then
        if [[ " ${started[*]-} " == *" $name "* ]]; then
          echo "$name: ready after $SECONDS s"
        fi
      elif ! kill -0 "$(cat "$dir/$name/pid")" 2>/dev/null; then
        show_log "$name"
        fail "$name ended before it was ready (the others go on: scripts/stack status --dir $dir)"
      elif ((SECONDS >= ${STACK_TIMEOUT:-180})); then
        show_log "$name"
        fail "$name is not ready after $SECONDS s; STACK_TIMEOUT=seconds waits for longer"
      else
        still+=("$name")
      fi
    done
    waiting=(${still[@]+"${still[@]}"})
    if ((SECONDS - told >= 5 && ${#waiting[@]} > 0)); then
      told=$SECONDS
      echo "waiting for ${waiting[*]} ($SECONDS s)"
    fi
    sleep 0.2
  done
}

# Returns when the service $1, which was asked to stop, is gone.
wait_until_gone() {
  local pid deadline=$((SECONDS + 30))
  pid=$(cat "$dir/$1/pid")
  while alive "$1"; do
    if ((SECONDS >= deadline)); then
      echo "$1: did not stop in 30 s and is killed" >&2
      kill -KILL "$pid"
      sleep 0.5
    fi
    sleep 0.1
  done
  rm -f "$dir/$1/pid"
  echo "$1: stopped (process $pid)"
}

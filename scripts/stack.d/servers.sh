# shellcheck shell=bash
# How each server is started. Their settings are in deploy/, shared with docker-compose.yml; what is
# given here is where things are on this machine. Sourced by scripts/stack.
# shellcheck disable=SC2154 # which sets what is not set here

# Says so if a port of the service $1 is taken.
check_free() {
  local name
  for name in "${ports[@]}"; do
    if [[ $name == "${1^^}_"* ]] && is_open "${!name}"; then
      fail "port ${!name} ($name), which $1 needs, is taken by another process. Other ports:" \
        "scripts/stack up --port-offset 1000, or set $name"
    fi
  done
}

start_kafka() {
  local jars properties="$dir/kafka/server.properties"
  jars=$(class_path kafka "$KAFKA_VERSION")
  {
    cat "$root/deploy/kafka/server.properties"
    cat <<EOF

# Of this machine.
listeners=PLAINTEXT://127.0.0.1:$KAFKA_PORT,CONTROLLER://127.0.0.1:$KAFKA_CONTROLLER_PORT
advertised.listeners=PLAINTEXT://127.0.0.1:$KAFKA_PORT
controller.quorum.voters=1@127.0.0.1:$KAFKA_CONTROLLER_PORT
log.dirs=$dir/kafka/data
EOF
  } >"$properties"
  local logging="-Dlog4j2.configurationFile=file://$root/deploy/kafka/log4j2.properties"
  if ! [[ -e $dir/kafka/data/meta.properties ]]; then
    if ! "$java" "$logging" -cp "$jars" kafka.tools.StorageTool format \
      --cluster-id "$KAFKA_CLUSTER_ID" --config "$properties" >"$dir/kafka/format.log" 2>&1; then
      tail -n 15 "$dir/kafka/format.log" >&2
      fail "Kafka could not format $dir/kafka/data"
    fi
  fi
  launch kafka "$java" "$(mark kafka)" "-Xms$KAFKA_HEAP" "-Xmx$KAFKA_HEAP" -XX:+UseG1GC \
    -XX:+ExitOnOutOfMemoryError "$logging" -cp "$jars" kafka.Kafka "$properties"
}

start_cassandra() {
  local jars agent conf="file://$root/deploy/cassandra"
  jars=$(class_path cassandra "$CASSANDRA_VERSION")
  agent=$(tr ':' '\n' <<<"$jars" | grep '/jamm-[^/]*\.jar$')
  launch cassandra "$java" "$(mark cassandra)" "-Xms$CASSANDRA_HEAP" "-Xmx$CASSANDRA_HEAP" \
    "@$root/deploy/cassandra/jvm.options" "-javaagent:$agent" \
    "-Dcassandra.config=$conf/cassandra.yaml" \
    "-Dcassandra-rackdc.properties=$conf/cassandra-rackdc.properties" \
    "-Dlogback.configurationFile=$conf/logback.xml" \
    "-Dcassandra.storagedir=$dir/cassandra/data" \
    "-Dcassandra.native_transport_port=$CASSANDRA_PORT" \
    "-Dcassandra.storage_port=$CASSANDRA_STORAGE_PORT" \
    -cp "$jars" org.apache.cassandra.service.CassandraDaemon
}

start_redis() {
  # The title of the process is left as it is: `alive` knows the process by its arguments.
  launch redis redis-server "$root/deploy/redis/redis.conf" --bind 127.0.0.1 --port "$REDIS_PORT" \
    --set-proc-title no --dir "$dir/redis/data" --daemonize no
}

# Runs Kafka's tool $1 with the arguments that follow, against this stack's broker.
kafka_tool() {
  local class jars server=()
  case "${1:-}" in
    topics) class=org.apache.kafka.tools.TopicCommand ;;
    configs) class=org.apache.kafka.tools.ConfigCommand ;;
    console-producer) class=org.apache.kafka.tools.ConsoleProducer ;;
    console-consumer) class=org.apache.kafka.tools.consumer.ConsoleConsumer ;;
    consumer-groups) class=org.apache.kafka.tools.consumer.group.ConsumerGroupCommand ;;
    *) fail "no such tool: ${1:-}. There are topics, configs, console-producer, console-consumer and" \
      "consumer-groups" ;;
  esac
  shift
  if [[ " $* " != *" --bootstrap-server"* ]]; then
    server=(--bootstrap-server "$(address kafka)")
  fi
  install_packages
  find_java
  jars=$(class_path kafka "$KAFKA_VERSION")
  exec "$java" -Dlog4j2.level=warn -cp "$jars" "$class" ${server[@]+"${server[@]}"} "$@"
}

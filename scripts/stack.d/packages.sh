# shellcheck shell=bash
# What the servers need: a Java runtime, Redis, and jars from Maven Central. Sourced by scripts/stack.
# shellcheck disable=SC2034,SC2154 # which sets and uses what is not set or used here

# Sets `java` to a Java 17: Cassandra 5.0 runs on no later one, and Kafka on no earlier one.
find_java() {
  local candidate version
  for candidate in ${JAVA_HOME:+"$JAVA_HOME/bin/java"} java /usr/lib/jvm/java-17-*/bin/java; do
    version=$("$candidate" -version 2>&1 | sed -nE 's/.* version "([0-9]+).*/\1/p') || true
    if [[ $version == 17 ]]; then
      java=$candidate
      return
    fi
  done
  fail "there is no Java 17, which Cassandra $CASSANDRA_VERSION needs (Debian 12: apt-get install" \
    "openjdk-17-jre-headless); if it is elsewhere, set JAVA_HOME"
}

# Installs Java, Maven and Redis where they are missing.
install_packages() {
  local missing=() version
  command -v java >/dev/null || [[ -n ${JAVA_HOME:-} ]] || missing+=(openjdk-17-jre-headless)
  command -v mvn >/dev/null || missing+=(maven)
  command -v redis-server >/dev/null || missing+=(redis-server)
  if [[ ${#missing[@]} -gt 0 ]]; then
    if [[ $EUID -ne 0 ]] || ! command -v apt-get >/dev/null; then
      fail "these are missing: ${missing[*]} (the names of Debian's packages). Install them, or run this" \
        "as root on Debian, which installs them"
    fi
    echo "installing ${missing[*]}"
    if ! { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q \
      --no-install-recommends "${missing[@]}"; } >"$dir/apt.log" 2>&1; then
      tail -n 25 "$dir/apt.log" >&2
      fail "apt-get could not install ${missing[*]}"
    fi
  fi
  version=$(redis-server --version | sed -nE 's/.* v=([0-9]+).*/\1/p')
  if [[ $version != "${REDIS_VERSION%%.*}" ]]; then
    fail "redis-server is version $version; version $REDIS_VERSION is wanted (see .env)"
  fi
}

# Prints the class path of the server $1 in version $2. Maven fetches the jars once, into ~/.m2, and
# every stack of this checkout uses them.
class_path() {
  local cache="$root/target/stack-jars" log="$dir/$1/maven.log"
  local file="$cache/$1-$2"
  if ! [[ -s $file ]] || ! all_exist "$file"; then
    echo "$1: fetching version $2 with Maven" >&2
    mkdir -p "$cache" "$dir/$1"
    if ! mvn -q -B -f "$root/scripts/stack.d/pom.xml" -P"$1" -Dserver.version="$2" \
      dependency:build-classpath -DincludeScope=runtime -Dmdep.outputFile="$file.$$" >"$log" 2>&1; then
      tail -n 15 "$log" >&2
      fail "Maven could not fetch $1 $2; its output is in $log"
    fi
    mv "$file.$$" "$file" # as a whole: another stack may be starting
  fi
  cat "$file"
}

# Whether all jars of the class path in the file $1 are there.
all_exist() {
  local jar jars
  IFS=: read -r -a jars <"$1" || true # the file has no last line end
  for jar in "${jars[@]}"; do
    [[ -e $jar ]] || return 1
  done
}

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.UUID;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Publishes lines {@code counter,delta} of standard input as events. See README.md. */
public final class CountEvents {
    private static final int ATTEMPTS = 3;
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final List<Header> HEADERS =
            List.of(new RecordHeader("content-type", "application/json".getBytes(StandardCharsets.US_ASCII)));

    /** A record that may have to be sent again, and the attempt that is next. */
    private record Attempt(ProducerRecord<byte[], byte[]> record, int number) {}

    private final KafkaProducer<byte[], byte[]> producer;
    private final Queue<Attempt> again = new ConcurrentLinkedQueue<>();
    private final Queue<String> unknown = new ConcurrentLinkedQueue<>();
    private final AtomicLong acknowledged = new AtomicLong();

    private CountEvents(KafkaProducer<byte[], byte[]> producer) {
        this.producer = producer;
    }

    public static void main(String[] arguments) throws Exception {
        String brokers = System.getProperty("brokers", "127.0.0.1:19092");
        String topic = System.getProperty("topic", "quipu-events");
        String namespace = System.getProperty("namespace", "default");
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (var producer = new KafkaProducer<byte[], byte[]>(config(brokers))) {
            var events = new CountEvents(producer);
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                if (!line.isBlank()) {
                    events.send(new Attempt(record(topic, namespace, line), 1));
                }
            }
            events.finish();
            System.out.println(events.acknowledged + " events are in the log");
            events.unknown.forEach(event -> System.err.println("not known whether it arrived: " + event));
            System.exit(events.unknown.isEmpty() ? 0 : 1);
        }
    }

    private static Map<String, Object> config(String brokers) {
        return Map.of(
                ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, brokers,
                // Acknowledged means that the log has it, and the client's own retries keep the order.
                ProducerConfig.ACKS_CONFIG, "all",
                ProducerConfig.ENABLE_IDEMPOTENCE_CONFIG, true,
                // For one attempt. Events older than the namespace's accept_limit are refused, so waiting
                // for longer than that is of no use.
                ProducerConfig.REQUEST_TIMEOUT_MS_CONFIG, 2000,
                ProducerConfig.LINGER_MS_CONFIG, 5,
                ProducerConfig.DELIVERY_TIMEOUT_MS_CONFIG, 4000,
                ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class,
                ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class);
    }

    /**
     * An event. Token and time are made here, once: whatever is sent again later is this same event, so it
     * is counted once however often it arrives.
     */
    private static ProducerRecord<byte[], byte[]> record(String topic, String namespace, String line)
            throws Exception {
        int comma = line.lastIndexOf(',');
        String counter = comma < 0 ? line : line.substring(0, comma);
        String change = comma < 0 ? "1" : line.substring(comma + 1).strip();
        Map<String, Object> event = new LinkedHashMap<>();
        event.put("namespace", namespace);
        event.put("counter_name", counter);
        event.put("token", UUID.randomUUID().toString());
        event.put("generation_time", Instant.now().truncatedTo(ChronoUnit.MICROS).toString());
        if (change.equals("clear")) {
            event.put("clear", true);
        } else {
            // A string: JSON numbers of other languages lose digits beyond 2^53.
            event.put("delta", Long.toString(Long.parseLong(change)));
        }
        return new ProducerRecord<>(topic, null, key(namespace, counter), JSON.writeValueAsBytes(event), HEADERS);
    }

    /** Events of one counter go to one partition. That is faster, but any key or none will do. */
    private static byte[] key(String namespace, String counter) {
        byte[] first = namespace.getBytes(StandardCharsets.UTF_8);
        byte[] second = counter.getBytes(StandardCharsets.UTF_8);
        return ByteBuffer.allocate(3 + first.length + second.length)
                .put((byte) first.length)
                .put(first)
                .putShort((short) second.length)
                .put(second)
                .array();
    }

    private void send(Attempt attempt) {
        try {
            producer.send(attempt.record, (metadata, error) -> {
                if (error == null) {
                    acknowledged.incrementAndGet();
                } else {
                    failed(attempt, error);
                }
            });
        } catch (KafkaException error) {
            failed(attempt, error);
        }
    }

    /** Tries again with the same bytes: the first attempt may have arrived after all. */
    private void failed(Attempt attempt, Exception error) {
        if (error instanceof RetriableException && attempt.number < ATTEMPTS) {
            again.add(new Attempt(attempt.record, attempt.number + 1));
        } else {
            unknown.add(error.getMessage() + ": " + new String(attempt.record.value(), StandardCharsets.UTF_8));
        }
    }

    /** Returns when the fate of every event is known, or will not be. */
    private void finish() {
        producer.flush();
        while (!again.isEmpty()) {
            for (Attempt next = again.poll(); next != null; next = again.poll()) {
                send(next);
            }
            producer.flush();
        }
    }
}

// A client of camellia-delay-queue, written from its page: a producer, and listeners that poll for long, acknowledge,
// and send back what their listener threw at. It finds another server when one does not answer.
//
//	java Camellia.java http://127.0.0.1:7070 http://127.0.0.1:7071
//
// It prints "half" once half of the messages have been acknowledged, and "all" at the end.

import java.io.IOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

public class Camellia {
    static final HttpClient http = HttpClient.newBuilder().connectTimeout(Duration.ofSeconds(2)).build();
    static final int many = 200;

    interface Listener { void onMsg(Msg m) throws Exception; }

    record Msg(String id, String body, long due, int retry, int status) {
        static final Pattern object = Pattern.compile("\\{[^{}]*\"msgId\"[^{}]*\\}");

        // The two servers write the fields in orders of their own.
        static String field(String object, String name) {
            Matcher m = Pattern.compile("\"" + name + "\":\"?([^\",}]*)").matcher(object);
            return m.find() ? m.group(1) : "0";
        }

        static List<Msg> of(String answer) {
            List<Msg> all = new ArrayList<>();
            for (Matcher m = object.matcher(answer); m.find(); ) {
                String one = m.group();
                all.add(new Msg(field(one, "msgId"), field(one, "msg"), Long.parseLong(field(one, "triggerTime")),
                    Integer.parseInt(field(one, "retry")), Integer.parseInt(field(one, "status"))));
            }
            return all;
        }
    }

    final List<String> servers;
    final Map<String, Long> dead = new ConcurrentHashMap<>(); // until when a server is left alone

    Camellia(List<String> servers) { this.servers = servers; }

    // call asks a server that is not known to be dead, and another one if it does not answer.
    String call(String route, int code, Object... fields) throws Exception {
        StringBuilder form = new StringBuilder();
        for (int i = 0; i < fields.length; i += 2) {
            form.append(i > 0 ? "&" : "").append(fields[i]).append('=')
                .append(URLEncoder.encode(fields[i + 1].toString(), StandardCharsets.UTF_8));
        }
        for (long end = System.nanoTime() + 20_000_000_000L; ; ) {
            List<String> alive = new ArrayList<>(servers);
            alive.removeIf(s -> dead.getOrDefault(s, 0L) > System.currentTimeMillis());
            List<String> from = alive.isEmpty() ? servers : alive;
            String server = from.get(ThreadLocalRandom.current().nextInt(from.size()));
            try {
                HttpRequest request = HttpRequest.newBuilder(URI.create(server + "/camellia/delayQueue/" + route))
                    .header("Content-Type", "application/x-www-form-urlencoded;charset=utf-8")
                    .timeout(Duration.ofSeconds(30)).POST(HttpRequest.BodyPublishers.ofString(form.toString())).build();
                HttpResponse<String> answer = http.send(request, HttpResponse.BodyHandlers.ofString());
                if (answer.body().startsWith("{\"code\":500") && System.nanoTime() < end) {
                    Thread.sleep(100);
                    continue;
                }
                if (answer.statusCode() != 200 || code > 0 && !answer.body().startsWith("{\"code\":" + code)) {
                    throw new IllegalStateException(route + " " + form + ": " + answer.body());
                }
                return answer.body();
            } catch (IOException e) {
                dead.put(server, System.currentTimeMillis() + 5_000);
                if (System.nanoTime() > end) throw e;
            }
        }
    }

    void send(String topic, String id, String body, long delay, long ttl, int maxRetry) throws Exception {
        call("sendMsg", 200, "topic", topic, "msgId", id, "msg", body, "delayMillis", delay, "ttlMillis", ttl,
            "maxRetry", maxRetry);
    }

    // listen polls until the thread is interrupted.
    Thread listen(String topic, Listener listener) {
        Thread t = new Thread(() -> {
            try {
                while (true) {
                    for (Msg m : Msg.of(call("longPollingMsg", 200, "topic", topic, "ackTimeoutMillis", 3000,
                        "batch", 5, "longPollingTimeoutMillis", 2000))) {
                        boolean ack = true;
                        try {
                            listener.onMsg(m);
                        } catch (Exception e) {
                            ack = false;
                        }
                        call("ackMsg", 0, "topic", topic, "msgId", m.id, "ack", ack); // 404 once its time is over
                    }
                }
            } catch (InterruptedException e) {
                // stopped
            } catch (Exception e) {
                e.printStackTrace();
                System.exit(1);
            }
        });
        t.start();
        return t;
    }

    void becomes(String topic, String id, int status) throws Exception {
        for (int i = 0; i < 200; i++, Thread.sleep(100)) {
            if (Msg.of(call("getMsg", 200, "topic", topic, "msgId", id)).get(0).status == status) return;
        }
        throw new IllegalStateException(id + " does not become " + status);
    }

    public static void main(String[] servers) throws Exception {
        Camellia c = new Camellia(List.of(servers));
        Map<String, Boolean> done = new ConcurrentHashMap<>();
        AtomicInteger early = new AtomicInteger();
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            threads.add(c.listen("work", m -> {
                if (System.currentTimeMillis() < m.due) early.incrementAndGet();
                if (m.retry == 1 && m.body.endsWith("0")) throw new Exception("a listener that fails"); // once
                if (done.put(m.id, true) == null && done.size() == many / 2) System.out.println("half");
            }));
        }
        List<Integer> tries = new ArrayList<>(); // of one thread, until it has ended
        threads.add(c.listen("hopeless", m -> { tries.add(m.retry); throw new Exception("always"); }));
        for (int i = 0; i < many; i++) c.send("work", "m" + i, "body " + i, i * 20, 600_000, 10);
        c.send("hopeless", "h", "x", 0, 600_000, 2);
        c.send("nobody", "n", "x", 0, 300, 2);
        c.send("nobody", "d", "x", 600_000, 300, 2);
        c.call("deleteMsg", 200, "topic", "nobody", "msgId", "d");
        for (int i = 0; i < many; i++) c.becomes("work", "m" + i, 4);
        c.becomes("hopeless", "h", 6);
        c.becomes("nobody", "n", 5);
        c.becomes("nobody", "d", 7);
        for (Thread t : threads) t.interrupt();
        threads.get(threads.size() - 1).join();
        if (!tries.equals(List.of(1, 2, 3))) throw new IllegalStateException("tried as " + tries);
        if (early.get() > 0 || done.size() != many) throw new IllegalStateException(early + " early, " + done.size());
        System.out.println("all");
    }
}

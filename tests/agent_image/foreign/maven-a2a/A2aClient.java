// The Java SDK of A2A 0.3 as a client: it makes the common calls of these clients and prints the results as JSON.
// Its HTTP client asks to upgrade each connection to HTTP/2 (`Upgrade: h2c`). Over HTTP+JSON it cannot read a question,
// because its parser refuses the metadata of a part.

import com.fasterxml.jackson.databind.ObjectMapper;
import io.a2a.A2A;
import io.a2a.client.Client;
import io.a2a.client.ClientEvent;
import io.a2a.client.TaskEvent;
import io.a2a.client.TaskUpdateEvent;
import io.a2a.client.config.ClientConfig;
import io.a2a.client.transport.jsonrpc.JSONRPCTransport;
import io.a2a.client.transport.jsonrpc.JSONRPCTransportConfig;
import io.a2a.client.transport.rest.RestTransport;
import io.a2a.client.transport.rest.RestTransportConfig;
import io.a2a.client.transport.spi.interceptors.ClientCallContext;
import io.a2a.spec.A2AClientException;
import io.a2a.spec.AgentCard;
import io.a2a.spec.GetTaskPushNotificationConfigParams;
import io.a2a.spec.Message;
import io.a2a.spec.PushNotificationConfig;
import io.a2a.spec.Task;
import io.a2a.spec.TaskIdParams;
import io.a2a.spec.TaskPushNotificationConfig;
import io.a2a.spec.TaskQueryParams;
import io.a2a.spec.TaskStatusUpdateEvent;
import io.a2a.spec.TextPart;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

public class A2aClient {
  private static ClientCallContext context;
  private static AgentCard card;
  private static String binding;

  private interface Call {
    void run() throws A2AClientException;
  }

  public static void main(String[] arguments) throws Exception {
    String url = arguments[0];
    String hook = arguments[3];
    binding = arguments[2];
    Map<String, String> headers = Map.of("Authorization", "Bearer " + arguments[1]);
    context = new ClientCallContext(Map.of(), headers);
    card = A2A.getAgentCard(url, url.replaceFirst("^https?://[^/]+", "") + "/.well-known/agent-card.json", headers);

    Client plain = client(false, false);
    Task task = send(plain, "hello", null);
    List<String> states = new ArrayList<>();
    int finals = 0;
    Task followed = null;
    BlockingQueue<Object> events = new LinkedBlockingQueue<>();
    client(true, false).sendMessage(message("hello again", null), List.of((event, of) -> events.add(event)), events::add, context);
    while (finals == 0) {
      Object event = events.take();
      if (event instanceof Throwable failure) {
        throw new IllegalStateException(failure);
      }
      if (event instanceof TaskUpdateEvent update) {
        followed = update.getTask();
        if (update.getUpdateEvent() instanceof TaskStatusUpdateEvent status) {
          states.add(status.getStatus().state().asString());
          finals += status.isFinal() ? 1 : 0;
        }
      }
    }
    Task got = plain.getTask(new TaskQueryParams(task.getId()), context);
    Task running = send(client(false, true), "hang", null);
    Task cancelled = plain.cancelTask(new TaskIdParams(running.getId()), context);
    Task slow = send(client(false, true), "wait 1", null);
    PushNotificationConfig config =
        new PushNotificationConfig.Builder().id("mine").url(hook).token("sesame").build();
    plain.setTaskPushNotificationConfiguration(new TaskPushNotificationConfig(slow.getId(), config), context);
    TaskPushNotificationConfig found =
        plain.getTaskPushNotificationConfiguration(
            new GetTaskPushNotificationConfigParams(slow.getId(), "mine"), context);

    Map<String, Object> report = new LinkedHashMap<>();
    report.put("card", card.name());
    report.put("sent", List.of(state(task), text(task)));
    report.put("streamed", List.of(states.get(0), states.get(states.size() - 1), text(followed)));
    report.put("finals", finals);
    report.put("got", List.of(state(got), text(got)));
    report.put("cancelled", state(cancelled));
    if (binding.equals("JSONRPC")) {
      report.put("asked", ask(plain));
    }
    report.put("registered", found.pushNotificationConfig().url().equals(hook));
    report.put("unknown", failure(() -> plain.getTask(new TaskQueryParams("nobody"), context)));
    report.put("ended", failure(() -> plain.cancelTask(new TaskIdParams(task.getId()), context)));
    System.out.println(new ObjectMapper().writeValueAsString(report));
    System.exit(0); // The threads of the HTTP client would keep the process.
  }

  private static Client client(boolean streaming, boolean polling) throws A2AClientException {
    ClientConfig config = new ClientConfig.Builder().setStreaming(streaming).setPolling(polling).build();
    var builder = Client.builder(card).clientConfig(config);
    return binding.equals("JSONRPC")
        ? builder.withTransport(JSONRPCTransport.class, new JSONRPCTransportConfig()).build()
        : builder.withTransport(RestTransport.class, new RestTransportConfig()).build();
  }

  private static Message message(String text, Task task) {
    var builder =
        new Message.Builder()
            .role(Message.Role.USER)
            .messageId(UUID.randomUUID().toString())
            .parts(new TextPart(text));
    return task == null ? builder.build() : builder.taskId(task.getId()).contextId(task.getContextId()).build();
  }

  private static Task send(Client client, String text, Task task) throws Exception {
    BlockingQueue<ClientEvent> events = new LinkedBlockingQueue<>();
    client.sendMessage(message(text, task), List.of((event, of) -> events.add(event)), null, context);
    return ((TaskEvent) events.take()).getTask();
  }

  private static List<String> ask(Client client) throws Exception {
    Task asked = send(client, "ask Sure?", null);
    Task answered = send(client, "yes", asked);
    String question = ((TextPart) asked.getStatus().message().getParts().get(0)).getText();
    return List.of(state(asked), question, state(answered), text(answered));
  }

  private static String state(Task task) {
    return task.getStatus().state().asString();
  }

  private static String text(Task task) {
    return ((TextPart) task.getArtifacts().get(0).parts().get(0)).getText();
  }

  private static String failure(Call call) {
    try {
      call.run();
      return "nothing";
    } catch (A2AClientException error) {
      return error.getCause() == null ? error.getClass().getSimpleName() : error.getCause().getClass().getSimpleName();
    }
  }
}

// The Go SDK of A2A as a client: it makes the common calls of these clients and prints the results as JSON.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

// withoutRequirements returns a parser that ignores securityRequirements. In ProtoJSON the scopes of a scheme are an object
// with a list. The SDK (2.4.0) expects an array, and refuses the card.
func withoutRequirements(parse agentcard.Parser) agentcard.Parser {
	return func(text []byte) (*a2a.AgentCard, error) {
		fields := map[string]json.RawMessage{}
		if err := json.Unmarshal(text, &fields); err != nil {
			return nil, err
		}
		delete(fields, "securityRequirements")
		return parse(must(json.Marshal(fields)))
	}
}

// resolveCard returns the card, and the error of the SDK's own parser.
func resolveCard(ctx context.Context, url, token, version string) (*a2a.AgentCard, string) {
	parsers := map[string]agentcard.Parser{"1.0": agentcard.DefaultCardParser, "0.3": a2av0.NewAgentCardParser()}
	resolver := &agentcard.Resolver{CardParser: parsers[version]}
	header := agentcard.WithRequestHeader("Authorization", "Bearer "+token)
	refused := "nothing"
	if _, err := resolver.Resolve(ctx, url, header); err != nil {
		refused = err.Error()
	}
	resolver.CardParser = withoutRequirements(resolver.CardParser)
	return must(resolver.Resolve(ctx, url, header)), refused
}

// openClient returns a client of one version and one binding. Each of its requests has the token.
func openClient(ctx context.Context, card *a2a.AgentCard, token, version, binding string) (context.Context, *a2aclient.Client) {
	transports := map[string]a2aclient.FactoryOption{
		"1.0 JSONRPC":   a2aclient.WithJSONRPCTransport(nil),
		"1.0 HTTP+JSON": a2aclient.WithRESTTransport(nil),
		"0.3 JSONRPC":   a2av0.WithJSONRPCTransport(a2av0.JSONRPCTransportConfig{}),
		"0.3 HTTP+JSON": a2av0.WithRESTTransport(a2av0.RESTTransportConfig{}),
	}
	transport := transports[version+" "+binding]
	client := must(a2aclient.NewFromCard(ctx, card, a2aclient.WithDefaultsDisabled(), transport))
	return a2aclient.AttachServiceParams(ctx, a2aclient.ServiceParams{"Authorization": {"Bearer " + token}}), client
}

func buildRequest(text string) *a2a.SendMessageRequest {
	return &a2a.SendMessageRequest{Message: a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart(text))}
}

func buildAnswer(task *a2a.Task, text string) *a2a.SendMessageRequest {
	return &a2a.SendMessageRequest{Message: a2a.NewMessageForTask(a2a.MessageRoleUser, task, a2a.NewTextPart(text))}
}

func sendMessage(ctx context.Context, client *a2aclient.Client, request *a2a.SendMessageRequest) *a2a.Task {
	return must(client.SendMessage(ctx, request)).(*a2a.Task)
}

// startTask sends a message without waiting for the end of its task.
func startTask(ctx context.Context, client *a2aclient.Client, text string) *a2a.Task {
	request := buildRequest(text)
	request.Config = &a2a.SendMessageConfig{ReturnImmediately: true}
	return sendMessage(ctx, client, request)
}

func stateOf(status a2a.TaskStatus) string {
	return strings.ToLower(strings.TrimPrefix(string(status.State), "TASK_STATE_"))
}

func textOf(task *a2a.Task) string {
	return task.Artifacts[0].Parts[0].Text()
}

// readStream returns the first and the last state of a stream, and the text of its last artifact event.
func readStream(events iter.Seq2[a2a.Event, error]) []string {
	var states []string
	text := ""
	for event, err := range events {
		check(err)
		switch update := event.(type) {
		case *a2a.TaskStatusUpdateEvent:
			states = append(states, stateOf(update.Status))
		case *a2a.TaskArtifactUpdateEvent:
			text = update.Artifact.Parts[0].Text()
		}
	}
	return []string{states[0], states[len(states)-1], text}
}

// cancelFollowed cancels a task after the first event of a subscription. It returns the state of the answer, and the last
// state of the subscription.
func cancelFollowed(ctx context.Context, client *a2aclient.Client, task *a2a.Task) (string, string) {
	cancelled, followed := "", ""
	for event, err := range client.SubscribeToTask(ctx, &a2a.SubscribeToTaskRequest{ID: task.ID}) {
		check(err)
		if cancelled == "" {
			cancelled = stateOf(must(client.CancelTask(ctx, &a2a.CancelTaskRequest{ID: task.ID})).Status)
		}
		if update, ok := event.(*a2a.TaskStatusUpdateEvent); ok {
			followed = stateOf(update.Status)
		}
	}
	return cancelled, followed
}

func reasonOf[T any](_ T, err error) string {
	if err == nil {
		return "nothing"
	}
	return a2a.ErrorReason(err)
}

// registerReceiver registers a receiver, and returns true if the agent then lists it.
func registerReceiver(ctx context.Context, client *a2aclient.Client, task *a2a.Task, hook string) bool {
	config := &a2a.PushConfig{TaskID: task.ID, ID: "mine", URL: hook, Token: "sesame"}
	created := must(client.CreateTaskPushConfig(ctx, config))
	found := must(client.GetTaskPushConfig(ctx, &a2a.GetTaskPushConfigRequest{TaskID: task.ID, ID: created.ID}))
	listed := must(client.ListTaskPushConfigs(ctx, &a2a.ListTaskPushConfigRequest{TaskID: task.ID}))
	return found.URL == hook && len(listed) == 1 && listed[0].URL == hook
}

func main() {
	url, token, version, binding, hook := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5]
	card, refused := resolveCard(context.Background(), url, token, version)
	ctx, client := openClient(context.Background(), card, token, version, binding)
	task := sendMessage(ctx, client, buildRequest("hello"))
	streamed := readStream(client.SendStreamingMessage(ctx, buildRequest("hello again")))
	got := must(client.GetTask(ctx, &a2a.GetTaskRequest{ID: task.ID}))
	cancelled, followed := cancelFollowed(ctx, client, startTask(ctx, client, "hang"))
	asked := sendMessage(ctx, client, buildRequest("ask Sure?"))
	answered := sendMessage(ctx, client, buildAnswer(asked, "yes"))
	registered := registerReceiver(ctx, client, startTask(ctx, client, "wait 1"), hook)
	report := map[string]any{
		"card":       card.Name,
		"refused":    refused,
		"sent":       []string{stateOf(task.Status), textOf(task)},
		"streamed":   streamed,
		"got":        []string{stateOf(got.Status), textOf(got)},
		"cancelled":  cancelled,
		"asked":      []string{stateOf(asked.Status), asked.Status.Message.Parts[0].Text(), stateOf(answered.Status), textOf(answered)},
		"registered": registered,
		"followed":   followed,
		"unknown":    reasonOf(client.GetTask(ctx, &a2a.GetTaskRequest{ID: "nobody"})),
		"ended":      reasonOf(client.CancelTask(ctx, &a2a.CancelTaskRequest{ID: task.ID})),
	}
	if version == string(a2a.Version) {
		listed := must(client.ListTasks(ctx, &a2a.ListTasksRequest{ContextID: task.ContextID}))
		same := []bool{}
		for _, found := range listed.Tasks {
			same = append(same, found.ID == task.ID)
		}
		report["listed"] = same
	}
	fmt.Println(string(must(json.Marshal(report))))
}

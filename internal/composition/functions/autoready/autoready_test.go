package autoready

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/composition/functions/call"
	"github.com/espalier-dev/espalier/internal/composition/functions/fieldpath"
)

func parsed(t *testing.T, text string) map[string]any {
	t.Helper()
	var raw map[string]any
	if err := yaml.Unmarshal([]byte(text), &raw); err != nil {
		t.Fatal(err)
	}
	object, err := fieldpath.JSON(raw)
	if err != nil {
		t.Fatal(err)
	}
	return object.(map[string]any)
}

func TestReady(t *testing.T) {
	cases := map[string]struct {
		object string
		want   bool
	}{
		"A kind of somebody's own is ready by its condition":         {"{apiVersion: a.b/v1, kind: X, status: {conditions: [{type: Ready, status: 'True'}]}}", true},
		"It is not while its condition is false":                     {"{apiVersion: a.b/v1, kind: X, status: {conditions: [{type: Ready, status: 'False'}]}}", false},
		"It is not before anybody has looked at it":                  {"{apiVersion: a.b/v1, kind: X}", false},
		"Another condition does not make it ready":                   {"{apiVersion: a.b/v1, kind: X, status: {conditions: [{type: Synced, status: 'True'}]}}", false},
		"A condition of an older generation counts for nothing":      {"{apiVersion: a.b/v1, kind: X, metadata: {generation: 2}, status: {conditions: [{type: Ready, status: 'True', observedGeneration: 1}]}}", false},
		"A condition of this generation counts":                      {"{apiVersion: a.b/v1, kind: X, metadata: {generation: 2}, status: {conditions: [{type: Ready, status: 'True', observedGeneration: 2}]}}", true},
		"A status of an older generation counts for nothing":         {"{apiVersion: a.b/v1, kind: X, metadata: {generation: 2}, status: {observedGeneration: 1, conditions: [{type: Ready, status: 'True'}]}}", false},
		"A condition that tells no generation is believed":           {"{apiVersion: a.b/v1, kind: X, metadata: {generation: 2}, status: {conditions: [{type: Ready, status: 'True'}]}}", true},
		"A ConfigMap is ready when it is there":                      {"{apiVersion: v1, kind: ConfigMap}", true},
		"A Secret is ready when it is there":                         {"{apiVersion: v1, kind: Secret}", true},
		"A Role is ready when it is there":                           {"{apiVersion: rbac.authorization.k8s.io/v1, kind: Role}", true},
		"A Namespace is ready when it is there":                      {"{apiVersion: v1, kind: Namespace}", true},
		"A Service of the cluster is ready when it is there":         {"{apiVersion: v1, kind: Service, spec: {type: ClusterIP}}", true},
		"A load balancer waits for its address":                      {"{apiVersion: v1, kind: Service, spec: {type: LoadBalancer, clusterIP: 10.0.0.1}}", false},
		"A load balancer with an address is ready":                   {"{apiVersion: v1, kind: Service, spec: {type: LoadBalancer}, status: {loadBalancer: {ingress: [{ip: 1.2.3.4}]}}}", true},
		"An Ingress waits for its address":                           {"{apiVersion: networking.k8s.io/v1, kind: Ingress}", false},
		"A Deployment waits for its replicas":                        {"{apiVersion: apps/v1, kind: Deployment, metadata: {generation: 1}, spec: {replicas: 2}, status: {observedGeneration: 1, replicas: 2, updatedReplicas: 2, readyReplicas: 1, availableReplicas: 1}}", false},
		"A Deployment with its replicas is ready":                    {"{apiVersion: apps/v1, kind: Deployment, metadata: {generation: 1}, spec: {replicas: 1}, status: {observedGeneration: 1, replicas: 1, updatedReplicas: 1, readyReplicas: 1, availableReplicas: 1, conditions: [{type: Available, status: 'True'}]}}", true},
		"A Deployment whose controller lags is not":                  {"{apiVersion: apps/v1, kind: Deployment, metadata: {generation: 2}, spec: {replicas: 1}, status: {observedGeneration: 1, replicas: 1, updatedReplicas: 1, readyReplicas: 1, availableReplicas: 1, conditions: [{type: Available, status: 'True'}]}}", false},
		"A Job that runs is not ready":                               {"{apiVersion: batch/v1, kind: Job, status: {startTime: '2026-01-01T00:00:00Z', active: 1}}", false},
		"A Job that is complete is ready":                            {"{apiVersion: batch/v1, kind: Job, status: {conditions: [{type: Complete, status: 'True'}]}}", true},
		"A Job that failed is not":                                   {"{apiVersion: batch/v1, kind: Job, status: {conditions: [{type: Failed, status: 'True'}]}}", false},
		"A CronJob that is suspended is ready":                       {"{apiVersion: batch/v1, kind: CronJob, spec: {suspend: true}}", true},
		"A CronJob that never ran is not":                            {"{apiVersion: batch/v1, kind: CronJob}", false},
		"A CronJob whose last job succeeded is ready":                {"{apiVersion: batch/v1, kind: CronJob, status: {lastScheduleTime: '2026-01-01T00:00:00Z', lastSuccessfulTime: '2026-01-01T00:01:00Z'}}", true},
		"A CronJob whose last job has not succeeded is not":          {"{apiVersion: batch/v1, kind: CronJob, status: {lastScheduleTime: '2026-01-01T00:02:00Z', lastSuccessfulTime: '2026-01-01T00:01:00Z'}}", false},
		"A claim of storage waits until it is bound":                 {"{apiVersion: v1, kind: PersistentVolumeClaim, status: {phase: Pending}}", false},
		"A claim of storage that is bound is ready":                  {"{apiVersion: v1, kind: PersistentVolumeClaim, status: {phase: Bound}}", true},
		"A Pod that succeeded is ready though it is no longer Ready": {"{apiVersion: v1, kind: Pod, status: {phase: Succeeded, conditions: [{type: Ready, status: 'False', reason: PodCompleted}]}}", true},
		"A Pod that runs and is Ready is ready":                      {"{apiVersion: v1, kind: Pod, spec: {restartPolicy: Always}, status: {phase: Running, conditions: [{type: Ready, status: 'True'}]}}", true},
		"A Pod that runs and is not Ready is not":                    {"{apiVersion: v1, kind: Pod, status: {phase: Running, conditions: [{type: Ready, status: 'False'}]}}", false},
		"A Pod that is to end is not ready while it runs":            {"{apiVersion: v1, kind: Pod, spec: {restartPolicy: Never}, status: {phase: Running, conditions: [{type: Ready, status: 'True'}]}}", false},
		"A Pod that failed is not":                                   {"{apiVersion: v1, kind: Pod, status: {phase: Failed, conditions: [{type: Ready, status: 'False', reason: PodFailed}]}}", false},
		"A Pod that was evicted is not":                              {"{apiVersion: v1, kind: Pod, status: {phase: Failed, reason: Evicted, message: 'The node was low on resource: memory.'}}", false},
		"A Pod that nobody has scheduled is not":                     {"{apiVersion: v1, kind: Pod, status: {phase: Pending}}", false},
		"A volume that failed is not ready":                          {"{apiVersion: v1, kind: PersistentVolume, status: {phase: Failed}}", false},
		"A volume that was released is not":                          {"{apiVersion: v1, kind: PersistentVolume, status: {phase: Released}}", false},
		"A volume that nobody has looked at is not":                  {"{apiVersion: v1, kind: PersistentVolume}", false},
		"A volume that can be claimed is ready":                      {"{apiVersion: v1, kind: PersistentVolume, status: {phase: Available}}", true},
		"A volume that is bound is ready":                            {"{apiVersion: v1, kind: PersistentVolume, status: {phase: Bound}}", true},
		"A ReplicationController waits for its replicas":             {"{apiVersion: v1, kind: ReplicationController, spec: {replicas: 2}, status: {replicas: 0}}", false},
		"It waits for them to be available":                          {"{apiVersion: v1, kind: ReplicationController, spec: {replicas: 2}, status: {replicas: 2, readyReplicas: 2, availableReplicas: 1}}", false},
		"One without a number of replicas has one":                   {"{apiVersion: v1, kind: ReplicationController, status: {replicas: 0}}", false},
		"A ReplicationController with its replicas is ready":         {"{apiVersion: v1, kind: ReplicationController, spec: {replicas: 2}, status: {replicas: 2, readyReplicas: 2, availableReplicas: 2}}", true},
		"A ReplicationController of none is ready":                   {"{apiVersion: v1, kind: ReplicationController, spec: {replicas: 0}, status: {replicas: 0}}", true},
		"A request for a certificate waits until it is approved":     {"{apiVersion: certificates.k8s.io/v1, kind: CertificateSigningRequest}", false},
		"It waits until it is signed":                                {"{apiVersion: certificates.k8s.io/v1, kind: CertificateSigningRequest, status: {conditions: [{type: Approved, status: 'True'}]}}", false},
		"One that was denied is not ready":                           {"{apiVersion: certificates.k8s.io/v1, kind: CertificateSigningRequest, status: {conditions: [{type: Denied, status: 'True'}], certificate: eA==}}", false},
		"One that could not be signed is not":                        {"{apiVersion: certificates.k8s.io/v1, kind: CertificateSigningRequest, status: {conditions: [{type: Approved, status: 'True'}, {type: Failed, status: 'True'}], certificate: eA==}}", false},
		"One with its certificate is ready":                          {"{apiVersion: certificates.k8s.io/v1, kind: CertificateSigningRequest, status: {conditions: [{type: Approved, status: 'True'}], certificate: eA==}}", true},
		"An autoscaler that scales is ready":                         {"{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, status: {conditions: [{type: ScalingActive, status: 'True'}]}}", true},
		"An autoscaler that finds nothing to scale is not":           {"{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, status: {conditions: [{type: ScalingActive, status: 'True'}, {type: FailedGetScale, status: 'True'}]}}", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Ready(&unstructured.Unstructured{Object: parsed(t, tc.object)}); got != tc.want {
				t.Errorf("want %v, got %v", tc.want, got)
			}
		})
	}
}

func TestRun(t *testing.T) {
	configMap := call.Resource{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
	with := func(r call.Ready) call.Resource { c := configMap; c.Ready = r; return c }
	r := Run(call.Request{
		Observed: call.State{Resources: map[string]call.Resource{"here": configMap, "no": configMap, "yes": configMap, "extra": configMap}},
		Desired:  call.State{Resources: map[string]call.Resource{"here": configMap, "no": with(call.False), "yes": with(call.True), "new": configMap}},
		Context:  map[string]any{"k": "v"},
	})
	want := map[string]call.Resource{"here": with(call.True), "no": with(call.False), "yes": with(call.True), "new": configMap}
	if diff := cmp.Diff(want, r.Desired.Resources); diff != "" {
		t.Errorf("only what exists and nobody has spoken of becomes ready (-want +got):\n%s", diff)
	}
	if r.Context["k"] != "v" || len(r.Results) > 0 || r.TTL != 0 {
		t.Errorf("got %v", r)
	}
}

func TestInput(t *testing.T) {
	cases := map[string]struct{ input, want string }{
		"An input of the older version is known":  {"{apiVersion: autoready.fn.crossplane.io/v1alpha1, kind: Input}", ""},
		"It may say how long the answer holds":    {"{apiVersion: autoready.fn.crossplane.io/v1beta1, kind: Input, ttl: 5m}", ""},
		"An input of another kind is read as one": {"{apiVersion: autoready/v1, kind: Resources}", "the input is accepted, but: apiVersion: cannot be \"autoready/v1\"\nkind: is \"Resources\", not Input"},
		"A field that isn't known is refused":     {"{apiVersion: autoready.fn.crossplane.io/v1beta1, kind: Input, tll: 1m}", "invalid input: tll: no such field; did you mean \"ttl\"?"},
		"All mistakes are told at once":           {"{apiVersion: autoready.fn.crossplane.io/v1beta1, kind: Input, ttl: x, celHealthCheckCustomization: []}", "invalid input: celHealthCheckCustomization: must be an object, not a list\nttl: \"x\" is not a duration"},
	}
	for name, tc := range cases {
		r, got := Run(call.Request{Input: parsed(t, tc.input)}), ""
		if len(r.Results) > 0 {
			got = r.Results[0].Message
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestChecks(t *testing.T) {
	const object = "{apiVersion: a.b/v1, kind: X, metadata: {generation: 2}, status: {observedGeneration: 2, phase: Up, replicas: 3}}"
	cases := map[string]struct {
		input, context, object string
		ready                  call.Ready
		says                   string
	}{
		"A check that holds makes it ready":               {"{celHealthCheckCustomization: {a.b_v1_X: \"object.status.phase == 'Up' && object.status.replicas > 2\"}}", "{}", object, call.True, ""},
		"One that doesn't keeps it from being ready":      {"{celHealthCheckCustomization: {_v1_ConfigMap: 'has(object.data)'}}", "{}", "{apiVersion: v1, kind: ConfigMap}", call.False, ""},
		"One of another version is none":                  {"{celHealthCheckCustomization: {_v2_ConfigMap: 'false'}}", "{}", "{apiVersion: v1, kind: ConfigMap}", call.True, ""},
		"A status of an older generation proves none":     {"{celHealthCheckCustomization: {a.b_v1_X: 'true'}}", "{}", "{apiVersion: a.b/v1, kind: X, metadata: {generation: 2}, status: {observedGeneration: 1}}", call.Unspecified, ""},
		"Checks may be in the context":                    {"{celHealthCheckCustomizationFrom: '[a.b/environment].checks'}", "{a.b/environment: {checks: {a.b_v1_X: 'true'}}}", object, call.True, ""},
		"The input's go before the context's":             {"{celHealthCheckCustomization: {a.b_v1_X: 'false'}, celHealthCheckCustomizationFrom: checks}", "{checks: {a.b_v1_X: 'true'}}", object, call.False, ""},
		"A context without them is told":                  {"{celHealthCheckCustomizationFrom: checks}", "{}", object, call.Unspecified, "celHealthCheckCustomizationFrom: cannot read the field: checks: no such field"},
		"A context with others is told":                   {"{celHealthCheckCustomizationFrom: checks}", "{checks: {a: 1}}", object, call.Unspecified, "celHealthCheckCustomizationFrom: checks: a must be a string in the pipeline's context"},
		"A check that reads what isn't there is told":     {"{celHealthCheckCustomization: {a.b_v1_X: 'object.spec.on'}}", "{}", object, call.False, "the health check of a.b_v1_X cannot be evaluated: no such key: spec"},
		"One that can't be evaluated outdoes a condition": {"{celHealthCheckCustomization: {a.b_v1_X: 'object.spec.on'}}", "{}", "{apiVersion: a.b/v1, kind: X, status: {conditions: [{type: Ready, status: 'True'}]}}", call.False, "the health check of a.b_v1_X cannot be evaluated: no such key: spec"},
		"A check that is a number is told":                {"{celHealthCheckCustomization: {a.b_v1_X: 'object.status.replicas'}}", "{}", object, call.False, "the health check of a.b_v1_X cannot be evaluated: the result must be a boolean, not int"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			resource := call.Resource{Object: parsed(t, tc.object)}
			r := Run(call.Request{
				Input: parsed(t, strings.Replace(tc.input, "{", "{apiVersion: autoready.fn.crossplane.io/v1beta1, kind: Input, ", 1)), Context: parsed(t, tc.context),
				Observed: call.State{Resources: map[string]call.Resource{"one": resource, "two": resource}},
				Desired:  call.State{Resources: map[string]call.Resource{"one": {}, "two": {}}},
			})
			var said []string
			for _, result := range r.Results {
				said = append(said, result.Message)
			}
			if diff := cmp.Diff(tc.says, strings.Join(said, "; ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got := r.Desired.Resources["one"].Ready; got != tc.ready {
				t.Errorf("want %d, got %d", tc.ready, got)
			}
		})
	}
}

func TestAChecksCostIsBounded(t *testing.T) {
	items := make([]any, 2000)
	for i := range items {
		items[i] = int64(i)
	}
	_, err := evaluate("object.items.all(a, object.items.all(b, a + b >= 0))", map[string]any{"items": items})
	if err == nil || !strings.Contains(err.Error(), "cost limit exceeded") {
		t.Errorf("got %v", err)
	}
}

func TestACheckWithARegularExpressionOfTooManyStepsFails(t *testing.T) {
	object := map[string]any{"pattern": strings.Repeat("x{1000}", 70)}
	if _, err := evaluate(`"x".matches(object.pattern)`, object); err == nil || !strings.Contains(err.Error(), "too many steps") {
		t.Error(err)
	}
}

func TestACountedRepetitionCostsItsCopies(t *testing.T) {
	items := make([]any, 50)
	for i := range items {
		items[i] = strings.Repeat("x", 1000)
	}
	_, err := evaluate(`object.items.all(i, !i.matches("x{1000}y"))`, map[string]any{"items": items})
	if err == nil || !strings.Contains(err.Error(), "cost limit exceeded") {
		t.Errorf("got %v", err)
	}
}

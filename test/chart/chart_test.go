// Package chart tests the Helm chart: what it renders is valid for a real API server, and the
// controllers run with exactly the rendered permissions.
package chart

import (
	"encoding/base64"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/charts"
	"github.com/espalier-dev/espalier/cmd/espalier/chart"
	"github.com/espalier-dev/espalier/internal/kube/rbac"
	"github.com/espalier-dev/espalier/internal/program/manager"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/program/webhook"
	"github.com/espalier-dev/espalier/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

const namespace = "espalier-system"

// image is the setting that is required.
const image = "image.repository=espalier"

// render renders the chart with settings NAME=VALUE.
func render(t *testing.T, settings ...string) []*unstructured.Unstructured {
	t.Helper()
	return renderIn(t, namespace, settings...)
}

func renderIn(t *testing.T, namespace string, settings ...string) []*unstructured.Unstructured {
	t.Helper()
	all, err := chart.Render(chart.Options{Namespace: namespace, Set: append([]string{image}, settings...)})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// strict is settings for OpenShift, behind a proxy, with webhooks on the network of the nodes.
var strict = []string{
	"commonLabels.cost=platform", "commonAnnotations.owner=platform", "serviceAccount.annotations.owner=security", "podSecurityContext.runAsUser=null", "podSecurityContext.runAsGroup=null", "podSecurityContext.fsGroup=null",
	"securityContext.privileged=null", "extraEnv[0].name=HTTPS_PROXY", "extraEnv[0].value=http://proxy:3128", "extraVolumes[0].name=authorities",
	"extraVolumes[0].configMap.name=authorities", "extraVolumeMounts[0].name=authorities", "extraVolumeMounts[0].mountPath=/authorities", "hostNetwork=true",
	"dnsPolicy=ClusterFirstWithHostNet", "providers.postgresql.enabled=true", "providers.aws.enabled=true", "metrics.certificateSecret=metrics",
}

// matrix is settings that change what is rendered.
var matrix = map[string][]string{
	"Defaults":               nil,
	"One replica":            {"replicas=1"},
	"Everything":             {"providers.postgresql.enabled=true", "providers.postgresql.tenants=true", "providers.aws.enabled=true", "providers.aws.services={ec2,eks}", "providers.aws.namespacedIdentity=true", "webhook.certManager.enabled=true", "webhook.clientCA.configMap=clients", "webhook.clientCA.allowedNames={apiserver}", "webhook.replaceCrossplane=true", "metrics.serviceMonitor.enabled=true", "metrics.certificateSecret=metrics", "metrics.alerts.enabled=true", "metrics.dashboard.enabled=true", "tracing.endpoint=https://collector.monitoring.svc:4317", "tracing.samplingRatio=0.01", "tracing.headersSecret.name=collector", "tracing.ca.configMap=collector", "ui.enabled=true", "ui.certificateSecret=ui", "priorityClassName=system-cluster-critical"},
	"As little as possible":  {"webhook.enabled=false", "metrics.enabled=false", "networkPolicy.enabled=false", "podDisruptionBudget.enabled=false", "rbac.users.enabled=false", "admissionPolicies.enabled=false", "priorityAndFairness.enabled=false"},
	"Graphs only":            {"controllers.dialects={graph}"},
	"Compositions only":      {"controllers.dialects={composition}", "controllers.functions.certificatesSecret.name=tls", "controllers.functions.certificatesSecret.namespace=default"},
	"An issuer of one's own": {"webhook.certManager.enabled=true", "webhook.certManager.issuerRef.name=ours", "webhook.certManager.issuerRef.kind=ClusterIssuer"},
	"Repeated namespaces":    {"rbac.impersonate[0].namespace=default", "rbac.impersonate[0].names={espalier}", "rbac.impersonate[1].namespace=default", "rbac.impersonate[1].names={builder}"},
	"Impersonation":          {"priorityAndFairness.serviceAccounts[0].namespace=default", "priorityAndFairness.serviceAccounts[0].names={*}", "priorityAndFairness.borrowingLimitPercent=100", "rbac.impersonate[0].namespace=default", "rbac.impersonate[0].names={espalier,builder}", "rbac.composed[0].apiGroups={apps}", "rbac.composed[0].resources={deployments}", "rbac.composed[0].verbs={get,list,watch,create,patch,delete}"},
	"A digest":               {"image.repository=registry.example.com/espalier", "image.digest=sha256:" + strings.Repeat("0", 64), "image.pullSecrets={registry}"},
	"Limited networks":       {"networkPolicy.webhookFrom[0].ipBlock.cidr=10.0.0.0/28", "networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.team=monitoring", "ui.enabled=true", "networkPolicy.uiFrom[0].ipBlock.cidr=10.1.0.0/16", "networkPolicy.egress[0].ports[0].port=443"},
	"A cluster with rules":   strict,
	"Pods":                   {"nodeSelector.disk=ssd", "tolerations[0].key=control", "tolerations[0].operator=Exists", "affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight=1", "affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].key=zone", "affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].operator=Exists", "podLabels.team=platform", "podAnnotations.note=text", "controllers.extraArgs={--require-service-account=false}", "controllers.configuration.instanceLimits.objects=10000", "topologySpreadConstraints[0].maxSkew=2", "topologySpreadConstraints[0].topologyKey=zone", "topologySpreadConstraints[0].whenUnsatisfiable=DoNotSchedule"},
}

// external are the kinds that other programs serve, with the fields of spec that the chart sets.
var external = map[string][]string{
	"Issuer":         {"selfSigned", "ca"},
	"Certificate":    {"isCA", "commonName", "secretName", "duration", "renewBefore", "privateKey", "issuerRef", "dnsNames"},
	"ServiceMonitor": {"selector", "namespaceSelector", "endpoints"},
	"PrometheusRule": {"groups"},
}

// TestTheAPIServerAcceptsWhatIsRendered sends each object to the API server, strictly validated and
// as a dry run.
func TestTheAPIServerAcceptsWhatIsRendered(t *testing.T) {
	config := testkit.Server(t)
	cluster, release := testkit.NewCluster(t, config), testkit.Namespace(t, config)
	for name, settings := range matrix {
		t.Run(name, func(t *testing.T) {
			seen := map[string]bool{}
			for _, o := range renderIn(t, release, settings...) {
				id := o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
				if seen[id] {
					t.Errorf("%s is rendered twice", id)
				}
				seen[id] = true
				if fields, elsewhere := external[o.GetKind()]; elsewhere {
					for field := range o.Object["spec"].(map[string]any) {
						if !slices.Contains(fields, field) {
							t.Errorf("%s: spec.%s", id, field)
						}
					}
					continue
				}
				options := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict}
				if _, err := cluster.Resource(t, o.GroupVersionKind(), o.GetNamespace()).Create(t.Context(), o, options); err != nil && !apierrors.IsAlreadyExists(err) {
					t.Errorf("%s: %v", id, err)
				}
			}
			if !seen["Deployment "+release+"/espalier"] {
				t.Error("there is no Deployment")
			}
		})
	}
}

// TestValuesAreChecked sets values that do not exist, or are of another type.
func TestValuesAreChecked(t *testing.T) {
	cases := map[string]struct{ setting, says string }{
		"No image":                               {"image.repository=", "no image of Espalier is published"},
		"A typo":                                 {"controllers.worker=3", "'worker' not allowed"},
		"A typo at the top":                      {"replicaCount=3", "'replicaCount' not allowed"},
		"Another type":                           {"replicas=two", "got string, want integer"},
		"No replica":                             {"replicas=0", "minimum"},
		"A dialect that there isn't":             {"controllers.dialects={kro}", "must be one of"},
		"The account of ResourceGroups":          {"serviceAccount.name=espalier", "serviceAccount/name"},
		"Impersonation of all accounts":          {"rbac.impersonate[0].namespace=default", "names"},
		"An argument that is none":               {"controllers.extraArgs={workers}", "does not match pattern"},
		"A port that only root may listen on":    {"webhook.port=443", "minimum"},
		"A port of two servers":                  {"webhook.port=8080", "webhook.port cannot be 8080, which is metrics.port"},
		"The port of the probes":                 {"metrics.port=8081", "metrics.port cannot be 8081, which is that of the probes"},
		"A duration without a unit":              {"controllers.poll=60", "got number, want string"},
		"A ratio above 1":                        {"tracing.samplingRatio=2", "maximum"},
		"A ratio that is no number":              {"tracing.samplingRatio=half", "does not match pattern"},
		"Credentials in a URL":                   {"tracing.endpoint=https://me:hunter2@collector", "does not match pattern"},
		"A label of the chart":                   {`podLabels.app\.kubernetes\.io/component=mine`, "podLabels"},
		"A certificate's Secret of no namespace": {"controllers.functions.certificatesSecret.name=tls", "certificatesSecret.namespace is required"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := chart.Render(chart.Options{Namespace: namespace, Set: []string{image, tc.setting}})
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestEveryPodFollowsTheRulesOfTheCluster renders what concerns all pods, those of providers too.
func TestEveryPodFollowsTheRulesOfTheCluster(t *testing.T) {
	pods := 0
	for _, o := range render(t, strict...) {
		if o.GetLabels()["cost"] != "platform" {
			t.Errorf("%s %s lacks the label", o.GetKind(), o.GetName())
		}
		owner := map[bool]string{true: "security", false: "platform"}[o.GetKind() == "ServiceAccount" && o.GetName() == "espalier-controllers"]
		if got := o.GetAnnotations()["owner"]; got != owner {
			t.Errorf("%s %s has the annotation %q, not %q", o.GetKind(), o.GetName(), got, owner)
		}
		if o.GetKind() != "Deployment" {
			continue
		}
		pods++
		var d appsv1.Deployment
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &d); err != nil {
			t.Fatal(err)
		}
		if d.Spec.Template.Annotations["owner"] != "" {
			t.Errorf("%s: the pods have the annotation, so that changing it would restart them", d.Name)
		}
		spec := d.Spec.Template.Spec
		c := spec.Containers[0]
		if s := spec.SecurityContext; s.RunAsUser != nil || s.RunAsGroup != nil || s.FSGroup != nil || !*s.RunAsNonRoot {
			t.Errorf("%s: the security context is %+v", d.Name, s)
		}
		if s := c.SecurityContext; s.Privileged != nil || !*s.ReadOnlyRootFilesystem {
			t.Errorf("%s: the security context of the container is %+v", d.Name, s)
		}
		if !spec.HostNetwork || spec.DNSPolicy != corev1.DNSClusterFirstWithHostNet {
			t.Errorf("%s: host network %t, DNS %s", d.Name, spec.HostNetwork, spec.DNSPolicy)
		}
		if !slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "HTTPS_PROXY" && e.Value == "http://proxy:3128" }) {
			t.Errorf("%s: the variables are %v", d.Name, c.Env)
		}
		if !slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == "authorities" && v.ConfigMap != nil }) ||
			!slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "authorities" && m.MountPath == "/authorities" }) {
			t.Errorf("%s: the volumes are %v at %v", d.Name, spec.Volumes, c.VolumeMounts)
		}
	}
	if pods != 3 {
		t.Errorf("there are %d Deployments", pods)
	}
}

// TestTheIconIsThatOfThePage compares the icon in Chart.yaml, which needs no server as a data URL, with the page's.
func TestTheIconIsThatOfThePage(t *testing.T) {
	raw, err := fs.ReadFile(charts.Espalier(), "Chart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var chart struct{ Icon string }
	if err := yaml.Unmarshal(raw, &chart); err != nil {
		t.Fatal(err)
	}
	icon, err := os.ReadFile("../../cmd/espalier/cli/ui/assets/icon.svg")
	if err != nil {
		t.Fatal(err)
	}
	if want := "data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString(icon); chart.Icon != want {
		t.Errorf("the icon is %s, not %s", chart.Icon, want)
	}
}

// TestEveryValueIsDescribed compares values.yaml with the schema: both have the same values.
func TestEveryValueIsDescribed(t *testing.T) {
	var values, schema map[string]any
	for name, into := range map[string]*map[string]any{"values.yaml": &values, "values.schema.json": &schema} {
		raw, err := fs.ReadFile(charts.Espalier(), name)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(raw, into); err != nil {
			t.Fatal(err)
		}
	}
	var compare func(path string, value any, schema map[string]any)
	compare = func(path string, value any, schema map[string]any) {
		if schema["description"] == nil && path != "" {
			t.Errorf("%s has no description", path)
		}
		properties, _ := schema["properties"].(map[string]any)
		fields, _ := value.(map[string]any)
		if properties == nil {
			return
		}
		if schema["additionalProperties"] != false {
			t.Errorf("%s allows other values", path)
		}
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			if _, exists := fields[name]; !exists && path+"."+name != ".global" && !strings.HasSuffix(path, "resources") && !strings.HasSuffix(path, "issuerRef") {
				t.Errorf("values.yaml has no %s.%s", path, name)
			}
			compare(path+"."+name, fields[name], properties[name].(map[string]any))
		}
	}
	compare("", values, schema)
}

// TestTheRenderedRolesAreThoseOfTheProgram compares the roles of the controllers with what the program
// verifies at its start.
func TestTheRenderedRolesAreThoseOfTheProgram(t *testing.T) {
	options := func(change func(*server.ManagerOptions)) server.ManagerOptions {
		o := server.ManagerOptions{Options: manager.Options{Name: "espalier", LeaderElection: true, LeaderElectionNamespace: namespace, MetricsSecure: true}, Webhook: &webhook.Options{Namespace: namespace}}
		change(&o)
		return o
	}
	cases := map[string]struct {
		settings []string
		options  server.ManagerOptions
	}{
		"By default":        {nil, options(func(*server.ManagerOptions) {})},
		"Without webhooks":  {[]string{"webhook.enabled=false"}, options(func(o *server.ManagerOptions) { o.Webhook = nil })},
		"With cert-manager": {[]string{"webhook.certManager.enabled=true"}, options(func(o *server.ManagerOptions) { o.Webhook.Store = webhook.Mounted("") })},
		"Graphs":            {[]string{"controllers.dialects={graph}"}, options(func(o *server.ManagerOptions) { o.Dialects = []server.Dialect{server.Graph} })},
		"The kind Graph":    {[]string{"controllers.graphs=true"}, options(func(o *server.ManagerOptions) { o.Graphs = true })},
		"Compositions":      {[]string{"controllers.dialects={composition}"}, options(func(o *server.ManagerOptions) { o.Dialects = []server.Dialect{server.Composition} })},
		"The page":          {[]string{"ui.enabled=true"}, options(func(*server.ManagerOptions) {})}, // viewers read with their own permissions
		"Open metrics":      {[]string{"metrics.secure=false"}, options(func(o *server.ManagerOptions) { o.MetricsSecure = false })},
		"Packages":          {[]string{"controllers.packages.enabled=true"}, options(func(o *server.ManagerOptions) { o.Packages = &server.PackageOptions{Namespace: namespace} })},
		"Providers": {
			[]string{
				"controllers.packages.enabled=true", "controllers.packages.providers.permissions[0].apiGroups={example.org}",
				"controllers.packages.providers.permissions[0].resources={*}", "controllers.packages.providers.permissions[0].verbs={get,list}",
			},
			options(func(o *server.ManagerOptions) {
				o.Packages = &server.PackageOptions{Namespace: namespace, ProviderPermissions: []rbacv1.PolicyRule{{APIGroups: []string{"example.org"}, Resources: []string{"*"}, Verbs: []string{"get", "list"}}}}
			}),
		},
		"After Crossplane": {[]string{"webhook.replaceCrossplane=true"}, options(func(o *server.ManagerOptions) { o.ReplaceCrossplaneWebhook = true })},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			want, err := server.Needs(tc.options)
			if err != nil {
				t.Fatal(err)
			}
			var got []rbac.Permission
			for _, o := range render(t, tc.settings...) {
				if (o.GetName() == "espalier-controllers" || o.GetName() == "espalier-provider-permissions") && (o.GetKind() == "ClusterRole" || o.GetKind() == "Role") {
					got = append(got, permissionsOf(t, o)...)
				}
			}
			got = rbac.Distinct(got)
			for _, p := range want {
				if !slices.Contains(got, p) {
					t.Errorf("lacks: %s", p)
				}
			}
			for _, p := range got {
				if !slices.Contains(want, p) {
					t.Errorf("need not: %s", p)
				}
			}
		})
	}
}

// permissionsOf returns the permissions that a role grants.
func permissionsOf(t *testing.T, o *unstructured.Unstructured) (out []rbac.Permission) {
	t.Helper()
	var role rbacv1.Role
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role); err != nil {
		t.Fatal(err)
	}
	for _, rule := range role.Rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, name := range names {
					out = append(out, rbac.Object{Namespace: role.Namespace, Name: name}.Permissions(group, resource, rule.Verbs...)...)
				}
			}
		}
	}
	return out
}

// TestUsersGetNoMoreThanTheirOwn checks the ClusterRoles for users: none has what docs/security.md
// says that nobody is to be granted, and tenants get nothing of authors.
func TestUsersGetNoMoreThanTheirOwn(t *testing.T) {
	records := []string{"graphrevisions", "refuseddeletions", "bindings"}
	definitions := []string{"resourcegraphdefinitions", "resourcegroups", "compositeresourcedefinitions", "compositions", "environmentconfigs", "functions", "clusterusages", "clusterproviderconfigs"}
	count := 0
	for _, o := range render(t, matrix["Everything"]...) {
		name := strings.TrimPrefix(o.GetName(), "espalier-")
		if o.GetKind() != "ClusterRole" || slices.Contains([]string{"controllers", "composed", "provider-aws", "provider-aws-kinds", "provider-aws-services", "provider-postgresql", "metrics-reader"}, name) {
			continue
		}
		count++
		labels := o.GetLabels()
		for label, only := range map[string]string{"rbac.authorization.k8s.io/aggregate-to-view": "viewer", "rbac.authorization.k8s.io/aggregate-to-edit": "tenant", "rbac.authorization.k8s.io/aggregate-to-admin": ""} {
			if labels[label] != "" && name != only {
				t.Errorf("%s has the label %s", o.GetName(), label)
			}
		}
		listsRevisions := slices.ContainsFunc(permissionsOf(t, o), func(p rbac.Permission) bool { return p.Resource == "graphrevisions" && p.Verb == "list" })
		if rollsBack := name == "author" || name == "admin"; rollsBack != listsRevisions { // 'espalier rollback' lists them
			t.Errorf("%s may list revisions: %v", o.GetName(), listsRevisions)
		}
		for _, p := range permissionsOf(t, o) {
			writes := !slices.Contains([]string{"get", "list", "watch"}, p.Verb)
			switch {
			case p.Group == "*" || p.Resource == "*" || p.Verb == "*":
				t.Errorf("%s has a wildcard: %s", o.GetName(), p)
			case slices.Contains([]string{"impersonate", "use", "bind", "escalate"}, p.Verb), p.Group == "", p.Group == "rbac.authorization.k8s.io":
				t.Errorf("%s may %s", o.GetName(), p)
			case writes && slices.Contains(records, p.Resource):
				t.Errorf("%s may %s, a record of the controllers", o.GetName(), p)
			case writes && strings.HasPrefix(name, "tenant") && slices.Contains(definitions, p.Resource):
				t.Errorf("%s may %s", o.GetName(), p)
			case writes && name == "viewer":
				t.Errorf("%s may %s", o.GetName(), p)
			case writes && name == "namespace-author" && p.Resource != "resourcegroups":
				t.Errorf("%s may %s", o.GetName(), p)
			}
		}
	}
	if count != 8 {
		t.Errorf("%d roles for users", count)
	}
}

// TestPodsAreHardened checks the security context, probes and spread of all pods.
func TestPodsAreHardened(t *testing.T) {
	for _, o := range render(t, matrix["Everything"]...) {
		if o.GetKind() != "Deployment" {
			continue
		}
		pod, _, _ := unstructured.NestedMap(o.Object, "spec", "template", "spec")
		containers, _, _ := unstructured.NestedSlice(pod, "containers")
		for path, want := range map[string]any{"runAsNonRoot": true, "runAsUser": int64(65532)} {
			if got, _, _ := unstructured.NestedFieldNoCopy(pod, "securityContext", path); got != want {
				t.Errorf("%s: %s is %v", o.GetName(), path, got)
			}
		}
		if seccomp, _, _ := unstructured.NestedString(pod, "securityContext", "seccompProfile", "type"); seccomp != "RuntimeDefault" {
			t.Errorf("%s: seccomp profile %q", o.GetName(), seccomp)
		}
		for _, c := range containers {
			container := c.(map[string]any)
			for path, want := range map[string]any{"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "privileged": false} {
				if got, _, _ := unstructured.NestedFieldNoCopy(container, "securityContext", path); got != want {
					t.Errorf("%s: %s is %v", o.GetName(), path, got)
				}
			}
			if drop, _, _ := unstructured.NestedStringSlice(container, "securityContext", "capabilities", "drop"); !slices.Equal(drop, []string{"ALL"}) {
				t.Errorf("%s drops the capabilities %v", o.GetName(), drop)
			}
			for _, field := range []string{"livenessProbe", "readinessProbe", "startupProbe", "resources"} {
				if container[field] == nil {
					t.Errorf("%s has no %s", o.GetName(), field)
				}
			}
			if image := container["image"]; image != "espalier:0.1.0" {
				t.Errorf("%s: image %v", o.GetName(), image)
			}
		}
	}
}

// find returns the rendered object of a kind and name.
func find(t *testing.T, all []*unstructured.Unstructured, kind, name string) *unstructured.Unstructured {
	t.Helper()
	i := slices.IndexFunc(all, func(o *unstructured.Unstructured) bool { return o.GetKind() == kind && o.GetName() == name })
	if i < 0 {
		t.Fatalf("there is no %s %s", kind, name)
	}
	return all[i]
}

// TestSelectorsDoNotDependOnTheRelease renders a release of another name: the selector of a Deployment
// cannot be changed, and 'espalier install' takes over releases of any name.
func TestSelectorsDoNotDependOnTheRelease(t *testing.T) {
	settings := matrix["Everything"]
	other, err := chart.Render(chart.Options{Release: "platform", Namespace: namespace, Set: append([]string{image}, settings...)})
	if err != nil {
		t.Fatal(err)
	}
	want := render(t, settings...)
	for i, o := range other {
		if !reflect.DeepEqual(o.Object, want[i].Object) {
			t.Errorf("%s %s depends on the name of the release", o.GetKind(), o.GetName())
		}
	}
}

// TestThePageIsOffByDefault checks that nothing of it is rendered, and all of it if it is enabled.
func TestThePageIsOffByDefault(t *testing.T) {
	has := func(settings ...string) (out []string) {
		for _, o := range render(t, settings...) {
			raw, err := json.Marshal(o.Object)
			if err != nil {
				t.Fatal(err)
			}
			for _, part := range []string{`"espalier-ui"`, `--ui-bind-address=:8443`, `certPath: /certificates/ui`, `"port":"ui"`, `"containerPort":8443`, `"secretName":"mine"`} {
				if strings.Contains(string(raw), part) {
					out = append(out, o.GetKind()+" "+part)
				}
			}
		}
		slices.Sort(out)
		return out
	}
	if got := has(); len(got) > 0 {
		t.Errorf("by default: %q", got)
	}
	want := []string{
		`ConfigMap certPath: /certificates/ui`, `Deployment "containerPort":8443`, `Deployment "secretName":"mine"`, `Deployment --ui-bind-address=:8443`,
		`NetworkPolicy "port":"ui"`, `Service "espalier-ui"`,
	}
	if got := has("ui.enabled=true", "ui.certificateSecret=mine"); !slices.Equal(got, want) {
		t.Errorf("enabled: %q", got)
	}
}

// TestNoPeersMeansNobody checks that an empty networkPolicy.metricsFrom or uiFrom does not open the port to all.
func TestNoPeersMeansNobody(t *testing.T) {
	values := "{image: {repository: espalier}, networkPolicy: {metricsFrom: [], uiFrom: []}, ui: {enabled: true}, providers: {postgresql: {enabled: true}}}"
	all, err := chart.Render(chart.Options{Namespace: namespace, Values: [][]byte{[]byte(values)}})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range all {
		if o.GetKind() != "NetworkPolicy" {
			continue
		}
		ingress, _, _ := unstructured.NestedSlice(o.Object, "spec", "ingress")
		for _, rule := range ingress {
			ports, _, _ := unstructured.NestedSlice(rule.(map[string]any), "ports")
			if port := ports[0].(map[string]any)["port"]; port == "metrics" || port == "ui" {
				t.Errorf("%s has a rule for %v: %v", o.GetName(), port, rule)
			}
		}
	}
}

// TestUnusualValuesAreRendered sets names that YAML reads as another type than a string, and others
// that are no labels.
func TestUnusualValuesAreRendered(t *testing.T) {
	const number = "1e3"
	values := `
image: {repository: espalier, tag: 1.0.0+` + strings.Repeat("a", 80) + `, pullSecrets: ["` + number + `"]}
serviceAccount: {name: "` + number + `"}
priorityClassName: "` + number + `"
rbac: {impersonate: [{namespace: "` + number + `", names: ["1"]}, {namespace: "` + number + `", names: ["2"]}]}
controllers: {functions: {certificatesSecret: {namespace: "` + number + `", name: "` + number + `"}}}
metrics: {certificateSecret: "` + number + `", serviceMonitor: {enabled: true}}
tracing: {endpoint: "https://collector", headersSecret: {name: "` + number + `", key: "` + number + `"}, ca: {configMap: "` + number + `", key: "` + number + `"}}
ui: {enabled: true, certificateSecret: "` + number + `"}
webhook: {clientCA: {configMap: "` + number + `", allowedNames: ["*: # x"]}}
providers: {postgresql: {enabled: true, serviceAccount: {name: "` + number + `"}}}
`
	all, err := chart.Render(chart.Options{Namespace: number, Values: [][]byte{[]byte(values)}})
	if err != nil {
		t.Fatal(err)
	}
	roles := 0
	for _, o := range all {
		// The API server refuses a number where a name belongs; so does the decoder of its types.
		raw, err := o.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(strings.ReplaceAll(string(raw), `"`+number+`"`, ""), ":1000") {
			t.Errorf("%s %s has a number in place of a name: %s", o.GetKind(), o.GetName(), raw)
		}
		for label, value := range o.GetLabels() {
			if errs := validation.IsValidLabelValue(value); errs != nil {
				t.Errorf("%s %s: label %s: %v", o.GetKind(), o.GetName(), label, errs)
			}
		}
		if o.GetKind() == "Role" && o.GetName() == "espalier-impersonate" {
			roles++
			for _, account := range []string{"1", "2"} {
				want := rbac.Permission{Resource: "serviceaccounts", Namespace: number, Name: account, Verb: "impersonate"}
				if !slices.Contains(permissionsOf(t, o), want) {
					t.Errorf("lacks: %s", want)
				}
			}
		}
	}
	if roles != 1 {
		t.Errorf("%d Roles for the service accounts of a namespace", roles)
	}
	var deployment appsv1.Deployment
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(find(t, all, "Deployment", "espalier").Object, &deployment); err != nil {
		t.Fatal(err)
	}
	pod := deployment.Spec.Template.Spec
	if pod.ServiceAccountName != number || pod.PriorityClassName != number || pod.ImagePullSecrets[0].Name != number {
		t.Errorf("got %s, %s, %v", pod.ServiceAccountName, pod.PriorityClassName, pod.ImagePullSecrets)
	}
	variables := map[string]corev1.EnvVar{}
	for _, v := range pod.Containers[0].Env {
		variables[v.Name] = v
	}
	headers := variables["OTEL_EXPORTER_OTLP_TRACES_HEADERS"].ValueFrom
	if got := variables["OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE"].Value; got != "/certificates/tracing/"+number || headers == nil || headers.SecretKeyRef.Name != number {
		t.Errorf("the exporter of traces has %q, %v", got, headers)
	}
	if c := configured(t, all); !slices.Equal(c.Webhook.ClientNames, []string{"*: # x"}) {
		t.Errorf("the names of clients: %q", c.Webhook.ClientNames)
	}
}

// configured is the configuration file of the controllers.
func configured(t *testing.T, all []*unstructured.Unstructured) server.ControllerConfiguration {
	t.Helper()
	text, _, _ := unstructured.NestedString(find(t, all, "ConfigMap", "espalier").Object, "data", "config.yaml")
	c, problems, err := server.ParseConfiguration([]byte(text), server.DefaultConfiguration())
	if len(problems) > 0 || err != nil {
		t.Fatalf("%v, %v in\n%s", problems, err, text)
	}
	return c
}

// TestNotesAskTheLeader reads the commands that users copy: only the leader answers 'espalier watches',
// and 'helm uninstall' alone leaves webhooks behind.
func TestNotesAskTheLeader(t *testing.T) {
	notes, err := fs.ReadFile(charts.Espalier(), "templates/NOTES.txt")
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{"NOTES.txt": string(notes)}
	for _, name := range []string{"install.md", "operations.md"} {
		text, err := os.ReadFile("../../docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = string(text)
	}
	for name, text := range texts {
		if strings.Contains(text, "exec deploy/espalier") || !strings.Contains(text, "get lease "+manager.LeaseName("espalier")+" -o jsonpath='{.spec.holderIdentity}' | cut -d_ -f1) -- /espalier watches") {
			t.Errorf("%s does not take the pod of the leader from the lease", name)
		}
	}
	for _, name := range []string{"NOTES.txt", "operations.md"} {
		if !strings.Contains(texts[name], "exec POD -- /espalier watches") {
			t.Errorf("%s does not say how to ask the pods of several installations", name)
		}
	}
	if !strings.Contains(texts["NOTES.txt"], "espalier uninstall --yes") {
		t.Error("NOTES.txt does not say how to uninstall")
	}
}

// TestPodsListenOnAllAddresses checks what the programs do not do by default: on loopback, neither the kubelet nor Prometheus reaches them.
func TestPodsListenOnAllAddresses(t *testing.T) {
	for _, o := range render(t, matrix["Everything"]...) {
		if o.GetKind() != "Deployment" {
			continue
		}
		containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
		for _, c := range containers {
			args, _, _ := unstructured.NestedStringSlice(c.(map[string]any), "args")
			for _, want := range []string{"--health-probe-bind-address=:8081", "--metrics-bind-address=:8080"} {
				if !slices.Contains(args, want) {
					t.Errorf("Deployment %s has no %s", o.GetName(), want)
				}
			}
		}
	}
}

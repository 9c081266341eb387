package cloudcontrol_test

import (
	"context"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/espalier-dev/espalier/providers/aws/catalog"
	"github.com/espalier-dev/espalier/providers/aws/cloudcontrol"
	"github.com/espalier-dev/espalier/providers/aws/hook"
	"github.com/espalier-dev/espalier/providers/aws/naming"
	"github.com/espalier-dev/espalier/providers/aws/testkit/cloudcontroltest"
	"github.com/espalier-dev/espalier/sdk/managed"
	"github.com/espalier-dev/espalier/sdk/managed/conformance"
)

// TestConformanceOfDocDB has the handlers of DocumentDB themselves, on an API whose changes take time.
func TestConformanceOfDocDB(t *testing.T) {
	for name, tc := range map[string]struct {
		typ, kind string
		object    map[string]any
		change    func(forProvider map[string]any)
		duration  time.Duration
	}{
		"clusters": {
			"AWS::DocDB::DBCluster", "cluster",
			map[string]any{"MasterUsername": "root", "MasterUserPasswordSecretRef": map[string]any{"name": "db", "key": "password"}, "Tags": []any{map[string]any{"Key": "team", "Value": "a"}}},
			func(p map[string]any) {
				p["BackupRetentionPeriod"], p["Tags"] = int64(7), []any{map[string]any{"Key": "team", "Value": "b"}}
			}, 20 * time.Second,
		},
		"instances": {
			"AWS::DocDB::DBInstance", "instance", map[string]any{"DBClusterIdentifier": "main", "DBInstanceClass": "db.t4g.medium"},
			func(p map[string]any) { p["DBInstanceClass"] = "db.r6g.large" }, 20 * time.Second,
		},
		"instances at once": {
			"AWS::DocDB::DBInstance", "instance", map[string]any{"DBClusterIdentifier": "main", "DBInstanceClass": "db.t4g.medium"},
			func(p map[string]any) { p["PromotionTier"] = int64(3) }, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			typ, err := catalog.Get(tc.typ)
			if err != nil {
				t.Fatal(err)
			}
			kindName, err := naming.Of(tc.typ, false)
			if err != nil {
				t.Fatal(err)
			}
			clock := conformance.NewClock()
			cloud := cloudcontroltest.NewDocDB(clock.Now, tc.duration)
			kind := cloudcontrol.NewKind(typ, hook.For(tc.typ), cloudcontrol.Options{Now: clock.Now})
			account := &cloudcontrol.Account{Scope: "123456789012/eu-central-1", Config: cloud.Config()}
			s := conformance.Suite[*unstructured.Unstructured]{
				Kind: func() managed.Kind {
					return managed.For(managed.Definition[*unstructured.Unstructured]{
						Kind: kindName.GroupVersionKind(),
						New:  func() *unstructured.Unstructured { return &unstructured.Unstructured{} },
						Caps: kind.Caps,
						Connect: func(ctx context.Context, objects managed.Objects, m *unstructured.Unstructured) (managed.Client[*unstructured.Unstructured], error) {
							return kind.Connect(ctx, account, objects, m)
						},
					})
				},
				New: func(name string) *unstructured.Unstructured {
					return &unstructured.Unstructured{Object: map[string]any{
						"metadata": map[string]any{"name": name, "namespace": "prod"},
						"spec":     map[string]any{"forProvider": runtime.DeepCopyJSON(tc.object)},
					}}
				},
				Change: func(o *unstructured.Unstructured) {
					tc.change(o.Object["spec"].(map[string]any)["forProvider"].(map[string]any))
				},
				Clock: clock, MaxScenarios: 40,
				Count:    func(context.Context, *unstructured.Unstructured) (int, error) { return cloud.Count(tc.kind), nil },
				Snapshot: func(context.Context) (string, error) { return cloud.Snapshot(), nil },
				Objects: []runtime.Object{&corev1.Secret{
					ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "db", ResourceVersion: "1"}, Data: map[string][]byte{"password": []byte(password)},
				}},
				Secrets: []string{password},
			}
			if os.Getenv("ESPALIER_TEST_FULL") != "" {
				s.MaxScenarios = 0
			}
			for name, fault := range map[string]cloudcontroltest.Fault{
				"the service was unavailable":  {Refuse: true},
				"the service throttled":        {Throttle: true},
				"the service lost its answers": {LoseAnswer: true},
			} {
				s.Faults = append(s.Faults, conformance.Fault{Name: name, Inject: func() func() {
					cloud.Inject(fault)
					return func() { cloud.Inject(cloudcontroltest.Fault{}) }
				}})
			}
			conformance.Run(t, s)
		})
	}
}

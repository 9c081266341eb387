package crash

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// TestReadsAtRest has many VPCs and Subnets at rest: each poll costs at most one read of AWS for 50 of them, and no
// write to the API server. By default they are only observed, so that nothing has to be created with the limit of
// calls; in the full run, they are managed.
func TestReadsAtRest(t *testing.T) {
	p := newPlane(t)
	n, poll := testkit.Size(30, 60), time.Duration(testkit.Size(8, 20))*time.Second
	ns := testkit.Namespace(t, p.config)
	isManaged := testkit.Size(0, 1) == 1
	for i := range n {
		cidr, inner := fmt.Sprintf("10.%d.0.0/16", 100+i), fmt.Sprintf("10.%d.1.0/24", 100+i)
		vpc := member{typ: "AWS::EC2::VPC", name: fmt.Sprintf("v%d", i), create: "{CidrBlock: " + cidr + "}"}
		subnet := member{typ: "AWS::EC2::Subnet", name: fmt.Sprintf("s%d", i), create: "{VpcIdRef: {name: " + vpc.name + "}, CidrBlock: " + inner + "}"}
		var ids [2]string
		if !isManaged {
			vpc.policies, subnet.policies = "[Observe]", "[Observe]"
			ids[0] = native(t, "CreateVpc", map[string]string{"CidrBlock": cidr}, "vpc", "vpcId")
			ids[1] = native(t, "CreateSubnet", map[string]string{"CidrBlock": inner, "VpcId": ids[0]}, "subnet", "subnetId")
			t.Cleanup(func() {
				for j, action := range []string{"DeleteSubnet", "DeleteVpc"} {
					_, _ = cloud.Native(context.WithoutCancel(t.Context()), "ec2", action, map[string]string{[]string{"SubnetId", "VpcId"}[j]: ids[1-j]})
				}
			})
		}
		for j, m := range []member{vpc, subnet} {
			o := testkit.Parse(t, m.manifest(t, ns))[0]
			if !isManaged {
				o.SetAnnotations(map[string]string{resource.ExternalNameAnnotation: ids[j]})
			}
			if _, err := p.TryApply(t, o); err != nil {
				t.Fatal(err)
			}
		}
	}
	counter := testkit.NewCrash(0)
	p.change = func(o *server.Options) { o.Poll.Duration = poll }
	stop := p.start(t, counter.Wrap(p.config))
	defer func() { stop() }()
	kinds := []schema.GroupVersionKind{kindOf(t, "AWS::EC2::Subnet"), kindOf(t, "AWS::EC2::VPC")}
	for _, gvk := range kinds {
		p.AwaitList(t, gvk, ns, "", func(objects map[string]*unstructured.Unstructured) error {
			for _, o := range objects {
				if err := isSynced(o.GetGeneration())(o); err != nil {
					return fmt.Errorf("%s: %w", o.GetName(), err)
				}
			}
			return nil
		})
	}
	// What follows a creation is over after some polls.
	var began time.Time
	var writes int
	for range 3 {
		writes, began = counter.Writes(), cloud.Now()
		cloud.ResetCalls()
		testkit.Poll(t, "the resources are read again", func() bool {
			return cloud.Now().Sub(began) > poll && cloud.Count("DescribeVpcs", "") > 0 && cloud.Count("DescribeSubnets", "") > 0
		})
		if counter.Writes() == writes {
			break
		}
	}
	total, polls := cloud.Count("", ""), cloud.Now().Sub(began).Seconds()/poll.Seconds()
	calls := map[string]int{}
	for _, c := range cloud.Calls() {
		calls[c.Operation]++
	}
	// The interval of polls is jittered, so that two more batches of each type may be within the time.
	if most := float64(2*n)/50*(polls+1) + 4; float64(total) > most {
		t.Errorf("%d objects at rest cost %d calls in %.1f polls, more than %.1f: %v", 2*n, total, polls, most, calls)
	}
	if now := counter.Writes(); now != writes {
		t.Errorf("%d writes to the API server at rest", now-writes)
	}
	testkit.Report(t, "aws: %d VPCs and Subnets at rest: %d calls of AWS in %.1f polls: %v", 2*n, total, polls, calls)
	for _, gvk := range kinds {
		if err := p.Resource(t, gvk, ns).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
		p.AwaitList(t, gvk, ns, "", func(objects map[string]*unstructured.Unstructured) error {
			if len(objects) > 0 {
				return fmt.Errorf("%d remain", len(objects))
			}
			return nil
		})
	}
}

package model

import (
	"fmt"
	"strings"
	"testing"

	"github.com/espalier-dev/espalier/providers/aws/catalog"
)

func TestDecodeLimitsWhatAnAnswerCosts(t *testing.T) {
	for name, tc := range map[string]struct {
		raw  string
		want string
	}{
		"many empty objects": {`{"a":[` + strings.Repeat("{},", maxValues) + `{}]}`, "more than 100000 values"},
		"many levels":        {strings.Repeat(`{"a":`, 70) + "1" + strings.Repeat("}", 70), "more than 64 levels"},
		"text is one value":  {`{"a":"` + strings.Repeat(`{[,\"`, maxValues) + `"}`, ""},
		"a long list":        {`{"a":[` + strings.Repeat("1,", maxValues-100) + `1]}`, ""},
	} {
		_, err := Decode([]byte(tc.raw))
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAComparisonOfLongListsEnds compares lists without an order that have no item in common.
func TestAComparisonOfLongListsEnds(t *testing.T) {
	typ, err := catalog.Get("AWS::EC2::SecurityGroup")
	if err != nil {
		t.Fatal(err)
	}
	rules := func(protocol, address string, n int) map[string]any {
		var all []any
		for i := range n {
			all = append(all, map[string]any{"IpProtocol": protocol, "FromPort": int64(i), "ToPort": int64(i), "CidrIp": address})
		}
		return map[string]any{"SecurityGroupIngress": all}
	}
	for _, n := range []int{256, 10_000} {
		wanted := rules("tcp", "10.0.0.0/8", n)
		work := maxWork
		if c := compare(typ, wanted, rules("tcp", "10.0.0.0/9", n), &work); len(c.Differences) != 1 {
			t.Errorf("%d rules: %s", n, c)
		}
		if work < -maxWork/100 { // a step may take more than is left
			t.Errorf("%d rules take %d steps more than a comparison gets", n, -work)
		}
		if c := Compare(typ, rules("6", "10.0.0.0/8", n), wanted); len(c.Differences) != 0 {
			t.Errorf("%d rules that are the same in another form: %s", n, c)
		}
	}
	// An answer that has all wanted items, and more work than any comparison gets.
	var wanted, got []any
	for i := range 256 {
		wanted = append(wanted, fmt.Sprint("a", i))
	}
	for i := range 20_000 {
		got = append(got, fmt.Sprint("b", i))
	}
	work, calls := maxWork, 0
	if matchAll(wanted, got, &work, func(any, any, int) bool { calls++; return calls%20_000 == 0 }) || calls > 200_000 {
		t.Errorf("%d pairs are compared", calls)
	}
}

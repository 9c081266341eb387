package expr

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

func TestEvaluating(t *testing.T) {
	env, vars := testEnv(t), worldVars(t)
	cases := map[string]struct {
		expr string
		want any
	}{
		"a path gives what is there":                             {`vpc.status.id`, "vpc-1"},
		"a path gives whole objects":                             {`vpc.spec`, map[string]any{"cidr": "10.0.0.0/16"}},
		"a keyword may be a field":                               {`schema.metadata.namespace`, "prod"},
		"a field may be escaped as Kubernetes does":              {`schema.metadata.__namespace__`, "prod"},
		"a label is found by its key":                            {`schema.metadata.labels["app.kubernetes.io/name"]`, "shop"},
		"an item is found by its index":                          {`vpc.status.subnets[1].id`, "subnet-2"},
		"an item is found by a computed index":                   {`vpc.status.subnets[schema.spec.index].id`, "subnet-2"},
		"untyped values are followed":                            {`raw.a.b[1].c`, "d"},
		"a null in untyped values is a value":                    {`raw.a.none == null`, true},
		"a duration that is only passed on stays as written":     {`schema.spec.every`, "1h"},
		"a duration that was computed is rendered":               {`schema.spec.every + duration("30m")`, "1h30m0s"},
		"a timestamp is rendered":                                {`schema.metadata.creationTimestamp + duration("1s")`, "2026-08-01T10:00:01Z"},
		"bytes are rendered in base64":                           {`b"hi"`, "aGk="},
		"a secret's data is bytes":                               {`string(secret.data.password)`, "hunter2"},
		"a secret's data that is passed on stays as written":     {`secret.data.password`, "aHVudGVyMg=="},
		"an unsigned integer becomes an integer":                 {`3u`, int64(3)},
		"a number field holds a double even if written as 2":     {`schema.spec.ratio / 4.0`, 0.5},
		"a quantity is rendered":                                 {`quantity("1Gi")`, "1Gi"},
		"an address is rendered":                                 {`ip("10.0.0.1")`, "10.0.0.1"},
		"a network is rendered":                                  {`cidr("10.0.0.0/8")`, "10.0.0.0/8"},
		"a url is rendered":                                      {`url("https://x.y/z")`, "https://x.y/z"},
		"a version is rendered":                                  {`semver("1.2.3")`, "1.2.3"},
		"an optional value that is there is unwrapped":           {`vpc.status.?id`, "vpc-1"},
		"an optional value that isn't there is absent":           {`vpc.status.?privateSubnet2ID`, Absent},
		"an optional value inside of a map is left out":          {`{"a": vpc.status.?privateSubnet2ID, "b": 1}`, map[string]any{"b": int64(1)}},
		"an optional value may have a default":                   {`vpc.status.?privateSubnet2ID.orValue("none")`, "none"},
		"has guards":                                             {`has(vpc.status.privateSubnet2ID) ? vpc.status.privateSubnet2ID : "x"`, "x"},
		"an or that is decided needs no other side":              {`vpc.status.privateSubnet2ID == "a" || true`, true},
		"a list made from a map is in the order of its keys":     {`schema.spec.env.map(k, k + schema.spec.env[k])`, []any{"A1", "B2"}},
		"a comprehension with two variables":                     {`schema.spec.env.transformList(k, v, k + v)`, []any{"A1", "B2"}},
		"a filter":                                               {`vpc.status.subnets.filter(s, s.size > 0).map(s, s.id)`, []any{"subnet-1"}},
		"a collection is a list":                                 {`vpcs.map(v, v.status.id)`, []any{"vpc-1", "vpc-2"}},
		"lists are joined":                                       {`schema.spec.tags + ["c"]`, []any{"a", "b", "c"}},
		"a binding":                                              {`cel.bind(s, vpc.status, s.id + s.privateSubnet1ID)`, "vpc-1subnet-1"},
		"json is made":                                           {`json.marshal(schema.spec.env)`, `{"A":"1","B":"2"}`},
		"json is read":                                           {`json.unmarshal("{\"a\": [1]}").a`, []any{float64(1)}},
		"the hash of the dialect is bytes":                       {`"%x".format([hash.md5("x")])`, "9dd4e461268c8034f5c8564e155c67a6"},
		"a map is merged with the right one winning":             {`{"a": 1, "b": 2}.merge({"b": 3})`, map[string]any{"a": int64(1), "b": int64(3)}},
		"maps are merged deeply":                                 {`{"a": {"x": 1}}.deepMerge({"a": {"y": 2}})`, map[string]any{"a": map[string]any{"x": int64(1), "y": int64(2)}}},
		"an object of a schema may be merged":                    {`schema.spec.env.merge({"C": "3"})`, map[string]any{"A": "1", "B": "2", "C": "3"}},
		"a map of mixed types":                                   {`{"a": 1, "b": "x"}`, map[string]any{"a": int64(1), "b": "x"}},
		"objects of equal schemas can be compared":               {`vpc.status == vpcs[0].status`, false},
		"an int-or-string is what it is":                         {`schema.spec.port == 80`, true},
		"what a schema doesn't declare but preserves is untyped": {`vpc.status.extra.deep.er[1] + 0.5`, 3.0},
		"membership":                                             {`"b" in schema.spec.tags`, true},
		"a size":                                                 {`size(vpc.status.subnets)`, int64(2)},
		"equality with a literal list":                           {`schema.spec.tags == ["a", "b"]`, true},
		"equality with a literal map":                            {`schema.spec.env == {"A": "1", "B": "2"}`, true},
		"sets are joined without repetition":                     {`vpc.status.zones + ["b", "c"]`, []any{"a", "b", "c"}},
		"the order of a set doesn't matter":                      {`vpc.status.zones == ["b", "a"]`, true},
		"a list that is a map is joined by its keys": {
			`(vpc.status.conditions + vpcs[1].status.conditions).map(c, c.type + c.status)`, []any{"ReadyTrue", "SyncedTrue"},
		},
		"optional chains": {`vpc.?status.?subnets[?5].?id.hasValue()`, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p, problems := env.Compile(c.expr, "")
			if problems != nil {
				t.Fatal(problems)
			}
			got, err := p.Eval(vars)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPending(t *testing.T) {
	env, vars := testEnv(t), worldVars(t)
	cases := map[string]struct {
		expr string
		want []string
	}{
		"a field that isn't there":                     {`vpc.status.privateSubnet2ID`, []string{"vpc.status.privateSubnet2ID"}},
		"a field that isn't there, in a call":          {`vpc.status.privateSubnet2ID + "x"`, []string{"vpc.status.privateSubnet2ID"}},
		"a parent that isn't there":                    {`raw.x.y.z`, []string{"raw.x"}},
		"a parent that is null":                        {`raw.a.none.z`, []string{"raw.a.none"}},
		"a parent that is null, in a call":             {`raw.a.none.z + 1`, []string{"raw.a.none"}},
		"an index out of range":                        {`vpc.status.subnets[2].id`, []string{"vpc.status.subnets[2]"}},
		"an index out of range, in a call":             {`vpc.status.subnets[2].id + "x"`, []string{"vpc.status.subnets[2]"}},
		"a computed index out of range":                {`vpc.status.subnets[schema.spec.replicas].id`, []string{"vpc.status.subnets[3]"}},
		"an item of which a field isn't there":         {`vpcs.map(v, v.status.conditions)`, []string{"vpcs[0].status.conditions"}},
		"several items of which a field isn't there":   {`vpcs.map(v, v.status.privateSubnet1ID)`, []string{"vpcs[*].status.privateSubnet1ID"}},
		"several items by their indices":               {`vpc.status.subnets[2].id + vpc.status.subnets[3].id`, []string{"vpc.status.subnets[2]", "vpc.status.subnets[3]"}},
		"the item that a filter leaves":                {`vpc.status.subnets.filter(s, s.size > 9)[0].id`, []string{"vpc.status.subnets[*]"}},
		"an item that was computed of another":         {`vpcs.map(v, v.status.id + "x")[2]`, []string{"vpcs[*]"}},
		"an item of a sorted list, in a call":          {`vpc.status.zones.sort()[schema.spec.replicas] + "x"`, []string{"vpc.status.zones[*]"}},
		"an item that a filter passes on":              {`vpc.status.subnets.filter(s, s.size == 0).map(s, s.id + vpc.status.privateSubnet2ID)`, []string{"vpc.status.privateSubnet2ID"}},
		"what stands behind a guard of something else": {`has(vpc.status.id) ? vpc.status.privateSubnet2ID : "x"`, []string{"vpc.status.privateSubnet2ID"}},
		"a field asked for and then read all the same": {`(has(vpc.status.privateSubnet2ID) ? "a" : "b") + vpc.status.privateSubnet2ID`, []string{"vpc.status.privateSubnet2ID"}},
		"both sides of an or":                          {`vpc.status.privateSubnet2ID == "" || vpc.status.routes.other == ""`, []string{"vpc.status.privateSubnet2ID", "vpc.status.routes.other"}},
		"only the branch that is taken":                {`schema.spec.enabled ? vpc.status.privateSubnet2ID : vpc.status.routes.other`, []string{"vpc.status.privateSubnet2ID"}},
		"a binding":                                    {`cel.bind(s, vpc.status, s.privateSubnet2ID)`, []string{"vpc.status.privateSubnet2ID"}},
		"a key that isn't in a secret":                 {`string(secret.data.user)`, []string{"secret.data.user"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p, problems := env.Compile(c.expr, "")
			if problems != nil {
				t.Fatal(problems)
			}
			_, err := p.Eval(vars)
			var pending *Pending
			if !errors.As(err, &pending) {
				t.Fatalf("want Pending, got %#v", err)
			}
			if diff := cmp.Diff(c.want, texts(pending.Refs)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPendingOnARootThatIsAbsent(t *testing.T) {
	env := testEnv(t)
	for _, source := range []string{"vpc.status.id", `vpc.status.id + "x"`} {
		p, _ := env.Compile(source, "")
		_, err := p.Eval(map[string]any{})
		var pending *Pending
		if !errors.As(err, &pending) {
			t.Fatalf("want Pending, got %#v", err)
		}
		if diff := cmp.Diff([]string{"vpc"}, texts(pending.Refs)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestFailure(t *testing.T) {
	env, vars := testEnv(t), worldVars(t)
	cases := map[string]string{
		"a division by zero":                         `schema.spec.replicas / (vpc.status.subnets[1].size)`,
		"a bad conversion":                           `int(schema.spec.name)`,
		"a failure beside an optional value":         `(has(vpc.status.privateSubnet2ID) ? 1 : 2) / (schema.spec.replicas - 3)`,
		"a failure where a guard went the other way": `has(vpc.status.privateSubnet2ID) ? 1 : int(schema.spec.name)`,
		"no overload":                                `raw.a.b[0] + "x"`,
		"a map whose keys aren't strings":            `{1: 2}`,
		"a null compared, then a failure":            `raw.a.none == null ? int(schema.spec.name) : 1`,
		"bytes that aren't base64":                   `string(secret.data.broken)`,
		"a random string without length":             `random.seededString(0, "x")`,
		"an index outside the list of a function":    `lists.setAtIndex(schema.spec.tags, 9, "z")`,
		"a key twice in a map":                       `schema.spec.tags.transformMapEntry(i, v, {"x": i})`,
		"an index beyond a list that isn't read":     `schema.spec.name.split(",")[3]`,
		"a negative index":                           `schema.spec.tags[schema.spec.index - 2]`,
		"an item that a function needs":              `vpc.status.subnets.map(s, s.id).min() == "" ? 1 : [1][schema.spec.replicas]`,
		"a failure beside a key that isn't in a map": `"x" in schema.spec.env ? 1 : int(schema.spec.name)`,
		"a failure beside a comparison of maps":      `schema.spec.env == {"x": "1", "A": "1"} ? 1 : int(schema.spec.name)`,
	}
	vars["secret"].(map[string]any)["data"].(map[string]any)["broken"] = "%"
	for name, source := range cases {
		t.Run(name, func(t *testing.T) {
			p, problems := env.Compile(source, "spec.x")
			if problems != nil {
				t.Fatal(problems)
			}
			got, err := p.Eval(vars)
			var failure *Failure
			if !errors.As(err, &failure) {
				t.Fatalf("want Failure, got %v, %#v", got, err)
			}
			if failure.At != "spec.x" || failure.Expr != source {
				t.Errorf("the failure is of %s in %s", failure.Expr, failure.At)
			}
		})
	}
}

func TestCostIsLimited(t *testing.T) {
	env, err := NewEnv([]Declaration{{Name: "raw"}}, Limits{Cost: 1000})
	if err != nil {
		t.Fatal(err)
	}
	p, problems := env.Compile(`lists.range(1000).map(x, lists.range(1000).map(y, x * y)).size()`, "spec.x")
	if problems != nil {
		t.Fatal(problems)
	}
	_, err = p.Eval(nil)
	var limit *LimitExceeded
	if !errors.As(err, &limit) || limit.Limit != "Cost" || limit.Max != 1000 {
		t.Fatalf("want LimitExceeded, got %#v", err)
	}
}

func TestReads(t *testing.T) {
	env := testEnv(t)
	cases := map[string]struct {
		expr string
		want []string
	}{
		"the longest path":                   {`vpc.status.subnets[0].id`, []string{"vpc.status.subnets[0].id"}},
		"every path once":                    {`vpc.status.id + vpc.status.id + schema.spec.name`, []string{"schema.spec.name", "vpc.status.id"}},
		"an optional path":                   {`vpc.status.?id.orValue("")`, []string{"vpc.status.id?"}},
		"a guarded path":                     {`has(vpc.status.id) ? vpc.status.id : ""`, []string{"vpc.status.id?"}},
		"a path guarded by a negation":       {`!has(vpc.status.id) || vpc.status.id == ""`, []string{"vpc.status.id?"}},
		"a path that is also read unguarded": {`has(vpc.status.id) ? "" : vpc.status.id`, []string{"vpc.status.id"}},
		"the items of a list":                {`vpc.status.subnets.map(s, s.id)`, []string{"vpc.status.subnets", "vpc.status.subnets[*].id"}},
		"the items that a filter left":       {`vpc.status.subnets.filter(s, s.size > 0).map(s, s.id)`, []string{"vpc.status.subnets", "vpc.status.subnets[*]", "vpc.status.subnets[*].id", "vpc.status.subnets[*].size"}},
		"a computed index":                   {`vpc.status.subnets[schema.spec.index].id`, []string{"schema.spec.index", "vpc.status.subnets[*].id"}},
		"a key that needs quotes":            {`schema.metadata.labels["a/b"]`, []string{`schema.metadata.labels["a/b"]`}},
		"no variable of a comprehension":     {`[1, 2].map(vpc, vpc * 2)`, nil},
		"what a binding stands for":          {`cel.bind(s, vpc.status, s.id)`, []string{"vpc.status", "vpc.status.id"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p, problems := env.Compile(c.expr, "")
			if problems != nil {
				t.Fatal(problems)
			}
			var got []string
			for _, r := range p.Refs() {
				text := r.String()
				if r.Optional {
					text += "?"
				}
				got = append(got, text)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func texts(refs []Ref) []string {
	var out []string
	for _, r := range refs {
		out = append(out, r.String())
	}
	return out
}

// TestRegularExpressionsAreBounded evaluates calls that no deadline would interrupt.
func TestRegularExpressionsAreBounded(t *testing.T) {
	env, err := NewEnv([]Declaration{{Name: "text", Schema: spec.StringProperty()}, {Name: "pattern", Schema: spec.StringProperty()}}, Limits{Cost: 1 << 62})
	if err != nil {
		t.Fatal(err)
	}
	vars := map[string]any{"text": strings.Repeat("x", 1<<20), "pattern": "(x+x+)+y"}
	for _, source := range []string{
		`text.matches(pattern)`, `matches(text, pattern)`, `text.find(pattern) == ""`, `text.findAll(pattern) == []`, `text.findAll(pattern, 1) == []`,
		`text.matches("(x+x+)+y")`, `matches(text, "(x+x+)+y")`, `text.find("(x+x+)+y") == ""`, `text.findAll("(x+x+)+y") == []`, `text.findAll("(x+x+)+y", 1) == []`,
	} {
		p, problems := env.Compile(source, "x")
		if problems != nil {
			t.Fatal(problems.Err())
		}
		if got, err := p.Eval(vars); err == nil || !strings.Contains(err.Error(), "too many steps") {
			t.Errorf("%s: %v %v", source, got, err)
		}
	}
}

func TestACountedRepetitionCostsItsCopies(t *testing.T) {
	env := testEnv(t)
	cost := func(source string) uint64 {
		t.Helper()
		p, problems := env.Compile(source, "x")
		if problems != nil {
			t.Fatal(problems.Err())
		}
		budget := NewBudget(func() error { return nil }, MaxCost, 0, MaxSize)
		if _, err := p.EvalWithin(budget, worldVars(t)); err != nil {
			t.Fatal(err)
		}
		return budget.Cost()
	}
	if one, many := cost(`"a".matches("x")`), cost(`"a".matches("x{1000}")`); many < one+200 {
		t.Error(one, many)
	}
}

func TestAFailedEvaluationIsNotRepeatedOnceTheBudgetHasEnded(t *testing.T) {
	p, problems := testEnv(t).Compile(`1 / (size(schema.spec.name) * 0)`, "x")
	if problems != nil {
		t.Fatal(problems.Err())
	}
	ended, asked := errors.New("deadline exceeded"), 0
	budget := NewBudget(func() error {
		if asked++; asked > 1 {
			return ended
		}
		return nil
	}, MaxCost, 0, MaxSize)
	if _, err := p.EvalWithin(budget, worldVars(t)); !errors.Is(err, ended) {
		t.Errorf("got %v", err)
	}
	if asked != 2 {
		t.Errorf("the budget was asked %d times", asked)
	}
}

func TestAFailedEvaluationIsNotRepeatedBeyondTheBudget(t *testing.T) {
	p, problems := testEnv(t).Compile(`1 / (size(schema.spec.name) * 0)`, "x")
	if problems != nil {
		t.Fatal(problems.Err())
	}
	budget := NewBudget(func() error { return nil }, 1, 0, MaxSize)
	var exceeded *BudgetExceeded
	if _, err := p.EvalWithin(budget, worldVars(t)); !errors.As(err, &exceeded) {
		t.Errorf("got %v", err)
	}
}

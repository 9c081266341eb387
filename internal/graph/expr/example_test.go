package expr_test

import (
	"errors"
	"fmt"

	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/espalier-dev/espalier/internal/graph/expr"
)

func Example() {
	vpc := new(spec.Schema).Typed("object", "")
	vpc.SetProperty("status", *new(spec.Schema).Typed("object", "").SetProperty("id", *spec.StringProperty()))
	env, err := expr.NewEnv([]expr.Declaration{{Name: "vpc", Schema: vpc}}, expr.Limits{})
	if err != nil {
		panic(err)
	}

	template, problems := env.Template(map[string]any{"name": "web-${vpc.status.id}"}, nil, "spec.resources[0].template")
	if problems != nil {
		panic(problems.Err())
	}
	fmt.Println(template.Refs())

	_, err = template.Render(map[string]any{"vpc": map[string]any{}})
	var pending *expr.Pending
	fmt.Println(errors.As(err, &pending), err)

	document, err := template.Render(map[string]any{"vpc": map[string]any{"status": map[string]any{"id": "vpc-1"}}})
	fmt.Println(document, err)

	_, problems = env.Template(map[string]any{"name": "${vpc.status.ID}"}, nil, "spec.resources[0].template")
	fmt.Println(problems.Err())
	// Output:
	// [vpc.status.id]
	// true waiting for vpc.status
	// map[name:web-vpc-1] <nil>
	// spec.resources[0].template.name: in "vpc.status.ID" at 12: undefined field 'ID' in vpc.status; did you mean "id"?
}

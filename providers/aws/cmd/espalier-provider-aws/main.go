// Command espalier-provider-aws serves the kinds of resource types of AWS, and nothing else, in any cluster.
package main

import (
	"github.com/espalier-dev/espalier/providers/aws"
	"github.com/espalier-dev/espalier/sdk/managed/serve"
)

func main() { serve.MainOf(aws.Program()) }

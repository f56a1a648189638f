// SPDX-License-Identifier: BSD-3-Clause

package libembed

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
)

const rows, dim = 257, 24

func glove() string { return filepath.Join(os.Getenv("EMBED_TEST_DATA"), "glove-2000x100.bin") }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func context(isa string) *Context { return must(NewContext(&ContextOptions{ISA: isa})) }

func randomTable(ctx *Context) *Table {
	t := must(NewTable(ctx, rows, dim, F32))
	if err := t.InitNormal(ctx, 1, 5); err != nil {
		panic(err)
	}
	return t
}

func refused(t *testing.T, want Status, err error) *Error {
	t.Helper()
	var e *Error
	if !errors.Is(err, want) || !errors.As(err, &e) {
		t.Fatalf("%v is wanted, not %v", want, err)
	}
	return e
}

func TestThreeViewsOfALookupAgree(t *testing.T) {
	scalar, fast := context("scalar"), context("")
	defer scalar.Close()
	defer fast.Close()
	table := randomTable(fast)
	defer table.Close()
	ids := make([]int32, 64)
	oneHot := make([]float32, len(ids)*rows)
	for i := range ids {
		ids[i] = int32(i * 37 % rows)
		oneHot[i*rows+int(ids[i])] = 1
	}
	want, got, mixed := make([]float32, 64*dim), make([]float32, 64*dim), make([]float32, 64*dim)
	if err := first(table.Lookup(scalar, ids, want, nil), table.Lookup(fast, ids, got, nil), table.Mix(fast, oneHot, 64, mixed)); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(want, got) || !reflect.DeepEqual(want, mixed) || !reflect.DeepEqual(want[dim:2*dim], table.Floats()[37*dim:38*dim]) {
		t.Fatal("the views differ")
	}
	if scalar.ISA() != "scalar" {
		t.Fatal(scalar.ISA())
	}
}

func TestATiedHeadHoldsItsTableAndSeesItChange(t *testing.T) {
	ctx := context("")
	defer ctx.Close()
	table := randomTable(ctx)
	head := must(NewHead(ctx, table, nil, nil))
	defer head.Close()
	if !head.IsTied(table) || head.Table() != table {
		t.Fatal("not tied")
	}
	unit := make([]float32, dim)
	unit[3] = 1
	for v, logit := range must(head.Logits(ctx, unit)) {
		if logit != table.Floats()[v*dim+3] {
			t.Fatal("not the column", v)
		}
	}
	large := make([]float32, dim)
	for i := range large {
		large[i] = 100
	}
	if err := table.SetRows(ctx, []int64{9}, large); err != nil {
		t.Fatal(err)
	}
	table.Close() // the head keeps it
	best := must(head.TopK(ctx, unit, 2))
	if best.IDs[0] != 9 || best.Logits[0] != 100 || best.Count[0] != 2 {
		t.Fatal(best)
	}
	if at := must(head.LogitsAt(ctx, unit, []int32{9})); at[0] != 100 {
		t.Fatal(at)
	}
}

func TestOneSweepAnswersSeveralQuestions(t *testing.T) {
	ctx := context("")
	defer ctx.Close()
	table := randomTable(ctx)
	defer table.Close()
	head := must(NewHead(ctx, table, nil, nil))
	defer head.Close()
	hidden := table.Floats()[:8*dim]
	best := must(head.TopK(ctx, hidden, 3))
	targets := make([]int32, 8)
	for i := range targets {
		targets[i] = best.IDs[i*3+i%3]
	}
	result := must(NewResult(ctx))
	defer result.Close()
	ask := AskTopKIDs | AskTopKLogits | AskTargetLogprob | AskTargetRank
	if err := head.Sweep(ctx, hidden, &Request{Ask: ask, K: 3, Targets: targets}, result); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(result.Integers(AskTopKIDs), best.IDs) || !reflect.DeepEqual(result.Floats(AskTopKLogits), best.Logits) ||
		result.Floats(AskEntropy) != nil || !reflect.DeepEqual(result.Integers(AskTargetRank), []int32{1, 2, 3, 1, 2, 3, 1, 2}) {
		t.Fatal("not what top-k says")
	}
	for i, logprob := range result.Floats(AskTargetLogprob) {
		if d := logprob - (best.Logits[i*3+i%3] - best.LogSumExp[i]); d > 1e-4 || d < -1e-4 {
			t.Fatal(i, logprob)
		}
	}
	rules := must(NewRules(ctx, rows))
	defer rules.Close()
	if err := rules.Ban(ctx, best.IDs[:1]); err != nil {
		t.Fatal(err)
	}
	two := &Request{Ask: AskToken, Rows: []int64{0, 1}, Rules: []*Rules{rules, nil}}
	if err := head.Sweep(ctx, hidden, two, result); err != nil || !reflect.DeepEqual(result.Integers(AskToken), []int32{best.IDs[1], best.IDs[3]}) {
		t.Fatal(err, result.Integers(AskToken))
	}
	if e := refused(t, ErrID, head.Sweep(ctx, hidden, &Request{Ask: ask, Rows: []int64{0, 1}, Targets: []int32{0, rows}}, result)); e.At != 1 {
		t.Fatal(e)
	}
	for _, q := range []*Request{{Rows: []int64{8}}, {Rows: []int64{-1}}, {Targets: []int32{0}}, {Rules: two.Rules}, {Params: make([]SampleParams, 2)}, {K: 1 << 40}} {
		q.Ask |= AskToken
		refused(t, ErrArgument, head.Sweep(ctx, hidden, q, result))
	}
}

func TestRulesAndSeedsDecideWhatIsDrawn(t *testing.T) {
	ctx := context("")
	defer ctx.Close()
	table := randomTable(ctx)
	defer table.Close()
	head := must(NewHead(ctx, table, nil, nil))
	defer head.Close()
	hidden := table.Floats()[:64*dim]
	each := make([]SampleParams, 64)
	for i := range each {
		each[i] = SampleParams{Seed: 1, Position: int64(i), Temperature: 4}
	}
	drawn, logprobs, err := head.Sample(ctx, hidden, nil, each)
	if err != nil || logprobs[5] >= 0 {
		t.Fatal(err, logprobs)
	}
	if alone, _, err := head.Sample(ctx, hidden[9*dim:10*dim], nil, each[9:10]); err != nil || alone[0] != drawn[9] {
		t.Fatal(alone, drawn[9], err)
	}
	rules := must(NewRules(ctx, rows))
	defer rules.Close()
	if err := first(rules.Allow(ctx, []uint32{0b1100, 0, 0, 0, 0, 0, 0, 0, 0}), rules.Bias(ctx, []int32{3}, []float32{1000}), rules.Push(ctx, []int32{3, 4}),
		rules.Pop(ctx, 1)); err != nil {
		t.Fatal(err)
	}
	refused(t, ErrArgument, rules.Pop(ctx, 2))
	refused(t, ErrArgument, rules.Bias(ctx, []int32{3}, nil))
	if e := refused(t, ErrID, rules.Ban(ctx, []int32{2, rows})); e.At != 1 {
		t.Fatal(e)
	}
	of := make([]*Rules, 64)
	for i := range of {
		of[i] = rules
	}
	three, _, err := head.Sample(ctx, hidden, of, each[:1])
	for _, id := range three {
		if err != nil || id != 3 {
			t.Fatal(three, err)
		}
	}
	rules.Clear()
	if again, _, err := head.Sample(ctx, hidden, of, each); err != nil || !reflect.DeepEqual(again, drawn) {
		t.Fatal(again, err)
	}
	if greedy, _, err := head.Sample(ctx, hidden, nil, nil); err != nil || !reflect.DeepEqual(greedy, must(head.TopK(ctx, hidden, 1)).IDs) {
		t.Fatal(greedy, err)
	}
}

func TestAWrongIDIsAnErrorWithItsPositionAndNothingIsWritten(t *testing.T) {
	ctx := context("")
	defer ctx.Close()
	table := randomTable(ctx)
	defer table.Close()
	out := make([]float32, 4*dim)
	for i := range out {
		out[i] = -7
	}
	e := refused(t, ErrID, table.Lookup(ctx, []int32{0, 1, 2, 50257}, out, nil))
	if e.At != 3 || !strings.Contains(e.Text, "50257") || !strings.Contains(e.Error(), "EMBED_E_ID") || errors.Is(e, ErrArgument) {
		t.Fatal(e)
	}
	for _, x := range out {
		if x != -7 {
			t.Fatal("something was written")
		}
	}
	if err := table.Lookup(ctx, []int32{0, 1, 2, 50257}, out, &LookupOptions{OOV: OOVHash}); err != nil || ctx.ReplacedIDs() != 1 {
		t.Fatal(err, ctx.ReplacedIDs())
	}
}

func TestBadInputIsAnErrorAndNeverAPanic(t *testing.T) {
	ctx := context("")
	defer ctx.Close()
	table := randomTable(ctx)
	head := must(NewHead(ctx, table, nil, nil))
	short := make([]float32, 3)
	refused(t, ErrArgument, table.Lookup(ctx, []int32{0}, short, nil))
	refused(t, ErrArgument, table.Lookup16(ctx, []int32{0}, make([]uint16, dim), F32, nil))
	refused(t, ErrArgument, table.Mix(ctx, short, 1, short))
	refused(t, ErrOverflow, table.Mix(ctx, nil, 1<<62, nil))
	refused(t, ErrOverflow, table.Mix(ctx, nil, -1, nil))
	refused(t, ErrArgument, table.Bag(ctx, []int32{1}, nil, nil, nil, BagSum))
	refused(t, ErrArgument, table.Bag(ctx, []int32{1}, []int64{0, 2}, nil, make([]float32, dim), BagSum))
	refused(t, ErrOption, table.Bag(ctx, []int32{1}, []int64{0, 1}, nil, make([]float32, dim), 99))
	refused(t, ErrArgument, table.Bag(ctx, []int32{1}, []int64{0, 1}, short, make([]float32, dim), BagSum))
	_, _, err := table.Nearest(ctx, make([]float32, dim), -1)
	refused(t, ErrArgument, err)
	_, err = head.Logits(ctx, make([]float32, dim+1))
	refused(t, ErrArgument, err)
	_, err = head.TopK(ctx, make([]float32, dim), 1<<30)
	refused(t, ErrArgument, err)
	_, err = NewHead(ctx, table, short, nil)
	refused(t, ErrArgument, err)
	_, err = NewTable(ctx, -1, 3, F32)
	refused(t, ErrArgument, err)
	_, err = NewTable(ctx, 1<<62, 1<<62, F32)
	refused(t, ErrOverflow, err)
	_, err = TableOf(ctx, short, 2, 3)
	refused(t, ErrArgument, err)
	_, err = NewContext(&ContextOptions{ISA: "no such level"})
	refused(t, ErrOption, err)
	_, err = NewPool(-1)
	refused(t, ErrArgument, err)
	_, err = Open(ctx, "a\x00b", nil)
	refused(t, ErrArgument, err)
	head.Close()
	table.Close()
	table.Close() // again: nothing
	_, err = head.Logits(ctx, make([]float32, dim))
	refused(t, ErrArgument, err)
	_, err = table.Norms(ctx)
	refused(t, ErrArgument, err)
	if table.Lookup(ctx, []int32{0}, make([]float32, dim), nil) == nil {
		t.Fatal("a closed table answers")
	}
	ctx.Close()
	if _, err = NewTable(ctx, 1, 1, F32); err == nil {
		t.Fatal("a closed context answers")
	}
}

func TestEmptySlicesAreNoErrors(t *testing.T) {
	ctx := context("")
	defer ctx.Close()
	table := randomTable(ctx)
	defer table.Close()
	head := must(NewHead(ctx, table, nil, nil))
	defer head.Close()
	none := make([]float32, 0, 8) // an address, and nothing there to read
	for _, err := range []error{
		table.Lookup(ctx, nil, nil, nil), table.Lookup(ctx, []int32{}, none, nil), table.Mix(ctx, none, 0, nil),
		table.Bag(ctx, nil, []int64{0}, nil, nil, BagMean), table.GetRows(ctx, nil, none), table.SetRows(ctx, nil, none),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(must(head.Logits(ctx, nil))) != 0 || len(must(head.LogitsAt(ctx, make([]float32, dim), nil))) != 0 || len(must(head.TopK(ctx, nil, 3)).IDs) != 0 {
		t.Fatal("something came out of nothing")
	}
	if empty := must(TableOf(ctx, nil, 0, 3)); empty.Rows() != 0 || empty.Dim() != 3 {
		t.Fatal("an empty table")
	}
}

func TestFilesOpenAndSayWhatIsWrongWithThem(t *testing.T) {
	ctx := context("")
	defer ctx.Close()
	file := must(Open(ctx, glove(), nil))
	table := must(file.Table(ctx, -1))
	defer table.Close()
	word := func(id int32) string { w, _ := file.Token(int64(id)); return w }
	id := func(w string) int32 { return int32(must(file.TokenID(ctx, w))) }
	row := make([]float32, 100)
	if err := table.Lookup(ctx, []int32{id("king")}, row, nil); err != nil {
		t.Fatal(err)
	}
	head := must(file.Head(ctx, nil))
	defer head.Close()
	best := must(head.TopK(ctx, row, 3))
	said := ""
	for i, id := range best.IDs {
		said += fmt.Sprintf("%s %.4f\n", word(id), best.Logits[i])
	}
	t.Log("\n" + said)
	if said != "king 37.4250\nprince 27.6650\nqueen 27.5883\n" || !head.IsTied(table) {
		t.Fatal(said)
	}
	if queen, _, err := table.Analogy(ctx, id("man"), id("king"), id("woman"), 1); err != nil || word(queen[0]) != "queen" {
		t.Fatal(queen, err)
	}
	if near, _, err := table.Nearest(ctx, row, 1); err != nil || word(near[0]) != "king" {
		t.Fatal(near, err)
	}
	if tensor := must(file.Tensor(ctx, 0)); tensor.Name != "vectors" || !reflect.DeepEqual(tensor.Shape, []int64{2000, 100}) {
		t.Fatal(tensor)
	}
	_, err := file.TokenID(ctx, "no such word")
	refused(t, ErrNotFound, err)
	file.Close() // tables and heads hold what they need
	if norms := must(table.Norms(ctx)); len(norms) != 2000 || norms[0] <= 0 {
		t.Fatal(len(norms))
	}

	_, err = Open(ctx, "/no/such/file", nil)
	refused(t, ErrIO, err)
	broken := filepath.Join(t.TempDir(), "broken.npy")
	if err := os.WriteFile(broken, []byte("\x93NUMPY\x01\x00 cut short"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Open(ctx, broken, nil)
	if e := refused(t, ErrFormat, err); e.At < 0 {
		t.Fatal(e)
	}
	path := filepath.Join(t.TempDir(), "copy.embed")
	w := must(NewWriter(ctx, path))
	if err := first(w.Table(ctx, "table", table), w.Token(ctx, 0, "the"), w.Commit(ctx)); err != nil {
		t.Fatal(err)
	}
	w.Close()
	again := must(Open(ctx, path, &FileOptions{Copy: true}))
	defer again.Close()
	if again.Format() != "embed" || must(again.Table(ctx, -1)).Rows() != 2000 {
		t.Fatal(again.Format())
	}
}

func TestSixtyFourGoroutinesShareOneTableAndHead(t *testing.T) {
	ctx := context("")
	defer ctx.Close()
	table := randomTable(ctx)
	defer table.Close()
	head := must(NewHead(ctx, table, nil, nil))
	defer head.Close()
	pool := must(NewPool(2))
	defer pool.Close()
	ids := make([]int32, 32)
	for i := range ids {
		ids[i] = int32(i)
	}
	want := make([]float32, len(ids)*dim)
	if err := table.Lookup(ctx, ids, want, nil); err != nil {
		t.Fatal(err)
	}
	best := must(head.TopK(ctx, want, 5))
	var all sync.WaitGroup
	for i := 0; i < 64; i++ {
		all.Add(1)
		go func(i int) {
			defer all.Done()
			ctx := must(NewContext(&ContextOptions{Pool: pool})) // its own: a goroutine may change its thread between calls
			defer ctx.Close()
			got := make([]float32, len(want))
			for round := 0; round < 20; round++ {
				err := table.Lookup(ctx, ids, got, nil)
				top, err2 := head.TopK(ctx, got, 5)
				if err != nil || err2 != nil || !reflect.DeepEqual(got, want) || !reflect.DeepEqual(top, best) {
					t.Errorf("goroutine %d: %v %v", i, err, err2)
				}
				runtime.Gosched()
				var e *Error
				if err := table.Lookup(ctx, []int32{0, int32(-1 - i)}, got[:2*dim], nil); !errors.As(err, &e) || e.At != 1 || !strings.Contains(e.Text, fmt.Sprint(-1-i)) {
					t.Errorf("goroutine %d reads another's error: %v", i, err)
				}
			}
		}(i)
	}
	all.Wait()
}

// FF-03: cgo gives each blocked call a thread of its own, and Go sends signals to all of them.
func TestFourHundredCallersWhileTheCollectorRuns(t *testing.T) {
	ctx := context("")
	defer ctx.Close()
	table := randomTable(ctx)
	defer table.Close()
	head := must(NewHead(ctx, table, nil, nil))
	defer head.Close()
	hidden := make([]float32, 64*dim)
	hidden[0] = 1
	want := must(head.Logits(ctx, hidden))
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-done:
				return
			default:
				runtime.GC()
			}
		}
	}()
	var all sync.WaitGroup
	for i := 0; i < 400; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			ctx := must(NewContext(nil)) // never closed: the finaliser's work
			if got, err := head.Logits(ctx, hidden); err != nil || !reflect.DeepEqual(got, want) {
				t.Error(err)
			}
		}()
	}
	all.Wait()
	close(done)
}

func TestWhatIsForgottenIsCollected(t *testing.T) {
	resident := func() int64 {
		var pages, res int64
		text := must(os.ReadFile("/proc/self/statm"))
		must(fmt.Sscan(string(text), &pages, &res))
		return res * int64(os.Getpagesize())
	}
	ctx := context("")
	defer ctx.Close()
	forget := func(n int) {
		for i := 0; i < n; i++ {
			table := must(NewTable(ctx, 1000, 1000, F32)) // 4 MB
			numbers := table.Floats()
			for j := 0; j < len(numbers); j += 512 { // touched, page by page
				numbers[j] = 1
			}
			runtime.KeepAlive(table)
			if i%10 == 9 {
				runtime.GC()
			}
		}
	}
	forget(20)
	before := resident()
	forget(200) // 800 MB in all
	if grown := resident() - before; grown > 200<<20 {
		t.Fatalf("%d MB stayed", grown>>20)
	}
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestATiedTableLearns(t *testing.T) {
	ctx := context("")
	defer ctx.Close()
	table := randomTable(ctx)
	defer table.Close()
	head := must(NewHead(ctx, table, nil, nil))
	defer head.Close()
	grad := must(NewDenseGrad(ctx, rows, dim))
	defer grad.Close()
	optimizer := must(NewOptimizer(ctx, table, OptimizerOptions{Kind: AdamW, LR: 0.05}))
	defer optimizer.Close()
	ids, ids32, targets := make([]int64, 32), make([]int32, 32), make([]int32, 32)
	for i := range ids {
		ids[i], ids32[i], targets[i] = int64(i*37%rows), int32(i*37%rows), int32((i*37+5)%rows)
	}
	targets[31] = -100 // ignored
	hidden := make([]float32, 32*dim)
	var losses []float64
	for step := 0; step < 20; step++ {
		grad.Clear()
		if err := table.Lookup(ctx, ids32, hidden, nil); err != nil {
			t.Fatal(err)
		}
		found := must(head.CrossEntropyTrain(ctx, hidden, targets, grad, &LossOptions{LabelSmoothing: 0.01}))
		sum := 0.0
		for _, loss := range found.Loss {
			sum += float64(loss)
		}
		if losses = append(losses, sum/31); found.Count != 31 || found.Loss[31] != 0 {
			t.Fatal(found.Count, found.Loss[31])
		}
		if err := first(grad.AddLookup(ctx, rows, ids, found.DHidden, nil), optimizer.Step(ctx, table, grad, &StepOptions{CheckFinite: true})); err != nil {
			t.Fatal(err)
		}
	}
	if !(losses[19] < losses[0]/2) || optimizer.Steps() != 20 {
		t.Fatal(losses, optimizer.Steps())
	}
}

func TestTrainingErrorsNameTheirPosition(t *testing.T) {
	ctx := context("")
	defer ctx.Close()
	table := randomTable(ctx)
	defer table.Close()
	head := must(NewHead(ctx, table, nil, nil))
	defer head.Close()
	if _, err := head.CrossEntropyTrain(ctx, make([]float32, 3*dim), []int32{0, rows, 1}, nil, nil); refused(t, ErrID, err).At != 1 {
		t.Fatal(err)
	}
	_, err := head.CrossEntropyTrain(ctx, make([]float32, 3*dim), []int32{0, 1}, nil, nil)
	refused(t, ErrArgument, err)
	_, err = head.CrossEntropyTrain(ctx, make([]float32, dim), []int32{0}, nil, &LossOptions{ClassWeight: make([]float32, 3)})
	refused(t, ErrArgument, err)
	grad := must(NewGrad(ctx, dim))
	defer grad.Close()
	if refused(t, ErrID, grad.AddLookup(ctx, rows, []int64{3, -1}, make([]float32, 2*dim), nil)).At != 1 {
		t.Fatal("the position is wanted")
	}
	dOut := make([]float32, 3*dim)
	for i := range dOut {
		dOut[i] = float32(i / dim)
	}
	if err := grad.AddLookup(ctx, rows, []int64{9, 4, 9}, dOut, nil); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(grad.IDs(), []int64{4, 9}) || grad.Values()[0] != 1 || grad.Values()[dim] != 2 {
		t.Fatal(grad.IDs(), grad.Values())
	}
	optimizer := must(NewOptimizer(ctx, table, OptimizerOptions{Kind: AdamWDeferred, LR: 0.1}))
	defer optimizer.Close()
	dOut[0] = float32(math.NaN())
	if err := grad.AddLookup(ctx, rows, []int64{4}, dOut[:dim], nil); err != nil {
		t.Fatal(err)
	}
	if refused(t, ErrNonfinite, optimizer.Step(ctx, table, grad, &StepOptions{CheckFinite: true})).At != 4 || optimizer.Steps() != 0 {
		t.Fatal("the row is wanted, and no step")
	}
	if err := first(optimizer.Touch(ctx, table, []int64{}), optimizer.Touch(ctx, table, nil)); err != nil {
		t.Fatal(err)
	}
	refused(t, ErrID, optimizer.Touch(ctx, table, []int64{rows}))
	_, err = NewOptimizer(ctx, table, OptimizerOptions{Kind: OptimizerKind(99), LR: 0.1})
	refused(t, ErrOption, err)
}

/* Executes statements. */
#include <string.h>

#include "jinja/jinja.h"
#include "jinja/rendering.h"

/* ---- scopes ---------------------------------------------------------------------------------------------------------- */

bool pf_jinja_open_scope(pf_jinja_run *run, pf_jinja_scope *scope)
{
    *scope = (pf_jinja_scope){ pf_jinja_new_dict(run->heap, PF_JINJA_DICT), run->scope };
    if (!pf_jinja_is_well(run->heap)) return false;
    run->scope = scope;
    return true;
}

/* A scope that outlives the statement, since macros may refer to it. */
static pf_jinja_scope *open_lasting_scope(pf_jinja_run *run)
{
    pf_jinja_scope *scope = pf_jinja_take(run->heap, 1, sizeof *scope);
    return scope != NULL && pf_jinja_open_scope(run, scope) ? scope : NULL;
}

void pf_jinja_assign(pf_jinja_run *run, pf_jinja_text name, pf_jinja_value value)
{
    pf_jinja_put(run->heap, &run->scope->names, pf_jinja_string(name), value);
}

/* What the statements print, as a text of its own. */
static pf_jinja_text capture(pf_jinja_run *run, const pf_jinja_node *statements)
{
    pf_jinja_builder text = { .n = 0 }, *const before = run->out;
    run->out = &text;
    pf_jinja_execute(run, statements);
    run->out = before;
    return (pf_jinja_text){ text.data, text.n };
}

static void print(pf_jinja_run *run, pf_jinja_text text)
{
    if (text.n > PF_JINJA_MAX_OUTPUT - run->out->n)
        pf_jinja_fail(run->heap, PF_LIMIT, "the text is longer than %d MiB", PF_JINJA_MAX_OUTPUT >> 20);
    else
        pf_jinja_add(run->heap, run->out, text.data, text.n);
}

/* ---- set ------------------------------------------------------------------------------------------------------------- */

static void assign_field(pf_jinja_run *run, const pf_jinja_node *target, pf_jinja_value value)
{
    pf_jinja_value of = pf_jinja_evaluate(run, target->a);
    if (of.kind == PF_JINJA_NAMESPACE)
        pf_jinja_put(run->heap, &of, pf_jinja_string(target->text), value);
    else
        PF_JINJA_FAIL_KIND(run, &of, "is no namespace: its fields cannot be set");
}

/* One value to each of the names. */
static void unpack(pf_jinja_run *run, const pf_jinja_node *names, const pf_jinja_value *value)
{
    const pf_jinja_value items = pf_jinja_items(run, value);
    size_t n = 0, i = 0;
    if (!pf_jinja_is_well(run->heap)) return;
    for (const pf_jinja_node *name = names; name != NULL; name = name->next) n++;
    if (n != items.as.list->n) {
        pf_jinja_fail(run->heap, PF_INVALID, "%zu values stand where %zu are expected", items.as.list->n, n);
        return;
    }
    for (const pf_jinja_node *name = names; name != NULL; name = name->next)
        pf_jinja_assign(run, name->text, items.as.list->items[i++]);
}

static void assign_target(pf_jinja_run *run, const pf_jinja_node *target, pf_jinja_value value)
{
    if (target->kind == PF_JINJA_NODE_NAME)
        pf_jinja_assign(run, target->text, value);
    else if (target->kind == PF_JINJA_NODE_FIELD)
        assign_field(run, target, value);
    else
        unpack(run, target->items, &value);
}

/* A text through the filters of a block: the innermost has no operand of its own. */
static pf_jinja_value filter_block(pf_jinja_run *run, const pf_jinja_node *filter, pf_jinja_value text)
{
    if (filter == NULL || !pf_jinja_step(run->heap, 1)) return text;
    const pf_jinja_value of = filter_block(run, filter->a, text);
    const pf_jinja_arguments args = pf_jinja_arguments_of(run, filter);
    return pf_jinja_is_well(run->heap) ? pf_jinja_filter(run, filter->text, &of, &args) : text;
}

/* ---- loops ----------------------------------------------------------------------------------------------------------- */

static pf_jinja_value cycle(pf_jinja_run *run, const pf_jinja_value *self, const pf_jinja_arguments *args)
{
    const pf_jinja_value *index = pf_jinja_get_text(run->heap, self, PF_JINJA_TEXT("index0"));
    if (index == NULL || args->n == 0) return pf_jinja_none();
    return args->items[(size_t)index->as.integer % args->n];
}

static pf_jinja_value changed(pf_jinja_run *run, const pf_jinja_value *self, const pf_jinja_arguments *args)
{
    pf_jinja_value loop = *self, now = pf_jinja_new_list(run->heap, PF_JINJA_LIST);
    for (size_t i = 0; pf_jinja_is_well(run->heap) && i < args->n; i++) pf_jinja_push(run->heap, &now, args->items[i]);
    const pf_jinja_text key = PF_JINJA_TEXT(" changed");
    const pf_jinja_value *before = pf_jinja_get_text(run->heap, self, key);
    const bool differs = before == NULL || !pf_jinja_equal(run->heap, before, &now);
    pf_jinja_put(run->heap, &loop, pf_jinja_string(key), now);
    return pf_jinja_bool(differs);
}

static void put(pf_jinja_run *run, pf_jinja_value *dict, const char *name, pf_jinja_value value)
{
    pf_jinja_put(run->heap, dict, pf_jinja_string((pf_jinja_text){ name, strlen(name) }), value);
}

/* The fields of `loop` at item i of a list. */
static void describe_loop(pf_jinja_run *run, pf_jinja_value *loop, const pf_jinja_list *list, size_t i, int64_t depth)
{
    const int64_t at = (int64_t)i, n = (int64_t)list->n;
    put(run, loop, "index0", pf_jinja_int(at));
    put(run, loop, "index", pf_jinja_int(at + 1));
    put(run, loop, "revindex", pf_jinja_int(n - at));
    put(run, loop, "revindex0", pf_jinja_int(n - at - 1));
    put(run, loop, "first", pf_jinja_bool(i == 0));
    put(run, loop, "last", pf_jinja_bool(i + 1 == list->n));
    put(run, loop, "length", pf_jinja_int(n));
    put(run, loop, "previtem", i > 0 ? list->items[i - 1] : pf_jinja_undefined(PF_JINJA_TEXT("previtem")));
    put(run, loop, "nextitem", i + 1 < list->n ? list->items[i + 1] : pf_jinja_undefined(PF_JINJA_TEXT("nextitem")));
    put(run, loop, "depth", pf_jinja_int(depth));
    put(run, loop, "depth0", pf_jinja_int(depth - 1));
}

/* The items for which the loop's condition holds. */
static pf_jinja_value chosen_items(pf_jinja_run *run, const pf_jinja_node *node, const pf_jinja_value *all)
{
    if (node->c == NULL) return *all;
    pf_jinja_scope *const around = run->scope, within;
    pf_jinja_value chosen = pf_jinja_new_list(run->heap, PF_JINJA_LIST);
    if (!pf_jinja_open_scope(run, &within)) return chosen;
    for (size_t i = 0; i < all->as.list->n && pf_jinja_step(run->heap, 1); i++) {
        assign_target(run, node->a, all->as.list->items[i]);
        const pf_jinja_value holds = pf_jinja_evaluate(run, node->c);
        if (pf_jinja_is_true(&holds)) pf_jinja_push(run->heap, &chosen, all->as.list->items[i]);
    }
    run->scope = around;
    return chosen;
}

/* Makes `loop` callable with other items: they go through the same loop, in the scope around it. */
static void put_call(pf_jinja_run *run, const pf_jinja_node *node, pf_jinja_value *loop)
{
    pf_jinja_value call = pf_jinja_new_callable(run, NULL, *loop);
    if (call.kind != PF_JINJA_CALLABLE) return;
    call.as.called->macro = node;
    call.as.called->scope = run->scope->around;
    pf_jinja_put(run->heap, loop, pf_jinja_string(PF_JINJA_LOOP_CALL), call);
}

static void run_loop(pf_jinja_run *run, const pf_jinja_node *node, const pf_jinja_list *list, int64_t depth)
{
    pf_jinja_scope *const around = run->scope, *scope = open_lasting_scope(run);
    pf_jinja_value loop = pf_jinja_new_dict(run->heap, PF_JINJA_NAMESPACE);
    if (scope == NULL || !pf_jinja_is_well(run->heap)) return;
    put(run, &loop, "cycle", pf_jinja_new_callable(run, cycle, loop));
    put(run, &loop, "changed", pf_jinja_new_callable(run, changed, loop));
    if (node->value.as.boolean) put_call(run, node, &loop);
    for (size_t i = 0; i < list->n && pf_jinja_step(run->heap, 1); i++) {
        scope->names.as.dict->n = 0; /* what an iteration sets, the next does not see */
        describe_loop(run, &loop, list, i, depth);
        pf_jinja_assign(run, PF_JINJA_TEXT("loop"), loop);
        assign_target(run, node->a, list->items[i]);
        pf_jinja_execute(run, node->items);
        const pf_jinja_jump jump = run->jump;
        run->jump = PF_JINJA_JUMP_NONE;
        if (jump == PF_JINJA_JUMP_BREAK) break;
    }
    run->scope = around;
}

/* The loop over the items of a value; depth: of its `loop`. */
static void loop_over(pf_jinja_run *run, const pf_jinja_node *node, const pf_jinja_value *sequence, int64_t depth)
{
    const pf_jinja_value all = pf_jinja_items(run, sequence);
    if (!pf_jinja_is_well(run->heap)) return;
    const pf_jinja_value items = chosen_items(run, node, &all);
    if (!pf_jinja_is_well(run->heap)) return;
    if (items.as.list->n == 0)
        pf_jinja_execute(run, node->other);
    else
        run_loop(run, node, items.as.list, depth);
}

static void execute_for(pf_jinja_run *run, const pf_jinja_node *node)
{
    const pf_jinja_value sequence = pf_jinja_evaluate(run, node->b);
    loop_over(run, node, &sequence, 1);
}

/* loop(items) of a recursive loop: what it prints, one level deeper. */
static pf_jinja_value call_loop(pf_jinja_run *run, const pf_jinja_callable *loop, const pf_jinja_arguments *args)
{
    const pf_jinja_value *items = pf_jinja_argument(args, 0, "iterable");
    const pf_jinja_value *depth = pf_jinja_get_text(run->heap, &loop->self, PF_JINJA_TEXT("depth"));
    pf_jinja_scope *const before = run->scope;
    pf_jinja_builder text = { .n = 0 }, *const out = run->out;
    if (items == NULL || args->n + args->n_named != 1) {
        pf_jinja_fail(run->heap, PF_INVALID, "a loop is called with one value, the items");
        return pf_jinja_none();
    }
    run->scope = loop->scope;
    run->out = &text;
    loop_over(run, loop->macro, items, (depth != NULL ? depth->as.integer : 0) + 1);
    run->out = out;
    run->scope = before;
    return pf_jinja_string((pf_jinja_text){ text.data, text.n });
}

/* ---- macros ---------------------------------------------------------------------------------------------------------- */

static pf_jinja_value new_macro(pf_jinja_run *run, const pf_jinja_node *node)
{
    pf_jinja_value macro = pf_jinja_new_callable(run, NULL, pf_jinja_none());
    if (macro.kind != PF_JINJA_CALLABLE) return macro;
    macro.as.called->macro = node;
    macro.as.called->scope = run->scope;
    return macro;
}

static bool is_parameter(const pf_jinja_node *macro, pf_jinja_text name)
{
    for (const pf_jinja_node *p = macro->keywords; p != NULL; p = p->next)
        if (pf_jinja_texts_equal(p->text, name)) return true;
    return pf_jinja_text_is(name, "caller");
}

static void bind_parameters(pf_jinja_run *run, const pf_jinja_node *macro, const pf_jinja_arguments *args)
{
    size_t i = 0;
    for (const pf_jinja_node *p = macro->keywords; p != NULL && pf_jinja_is_well(run->heap); p = p->next, i++) {
        const pf_jinja_value *given = i < args->n ? &args->items[i] : NULL;
        for (size_t k = 0; given == NULL && k < args->n_named; k++)
            if (pf_jinja_texts_equal(args->names[k], p->text)) given = &args->named[k];
        pf_jinja_assign(run, p->text,
                        given != NULL  ? *given
                        : p->a != NULL ? pf_jinja_evaluate(run, p->a)
                                       : pf_jinja_undefined(p->text));
    }
    if (args->n > i) pf_jinja_fail(run->heap, PF_INVALID, "a macro of %zu parameters is called with %zu", i, args->n);
    for (size_t k = 0; k < args->n_named; k++) {
        if (pf_jinja_text_is(args->names[k], "caller"))
            pf_jinja_assign(run, args->names[k], args->named[k]);
        else if (!is_parameter(macro, args->names[k]))
            pf_jinja_fail(run->heap, PF_INVALID, "a macro has no parameter %.*s",
                          (int)(args->names[k].n < 40 ? args->names[k].n : 40), args->names[k].data);
    }
}

pf_jinja_value pf_jinja_call_macro(pf_jinja_run *run, const pf_jinja_callable *macro, const pf_jinja_arguments *args)
{
    if (macro->macro->kind == PF_JINJA_NODE_FOR) return call_loop(run, macro, args);
    pf_jinja_scope *const before = run->scope;
    pf_jinja_value printed = pf_jinja_string(PF_JINJA_TEXT(""));
    run->scope = macro->scope;
    if (open_lasting_scope(run) != NULL) {
        bind_parameters(run, macro->macro, args);
        printed = pf_jinja_string(capture(run, macro->macro->items));
    }
    run->scope = before;
    run->jump = PF_JINJA_JUMP_NONE;
    return printed;
}

static void execute_call_block(pf_jinja_run *run, const pf_jinja_node *node)
{
    const pf_jinja_value callee = pf_jinja_evaluate(run, node->a->a);
    pf_jinja_arguments args = pf_jinja_arguments_of(run, node->a);
    pf_jinja_text *names = pf_jinja_take(run->heap, args.n_named + 1, sizeof *names);
    pf_jinja_value *named = pf_jinja_take(run->heap, args.n_named + 1, sizeof *named);
    if (names == NULL || named == NULL) return;
    for (size_t i = 0; i < args.n_named; i++) {
        names[i] = args.names[i];
        named[i] = args.named[i];
    }
    names[args.n_named] = PF_JINJA_TEXT("caller");
    named[args.n_named] = new_macro(run, node);
    args.names = names;
    args.named = named;
    args.n_named++;
    const pf_jinja_value printed = pf_jinja_call(run, &callee, &args);
    print(run, pf_jinja_str(run->heap, &printed));
}

/* ---- all statements -------------------------------------------------------------------------------------------------- */

static void execute_with(pf_jinja_run *run, const pf_jinja_node *node)
{
    pf_jinja_scope *const around = run->scope;
    const pf_jinja_scope *scope = open_lasting_scope(run);
    for (const pf_jinja_node *name = node->keywords; scope != NULL && name != NULL; name = name->next)
        pf_jinja_assign(run, name->text, pf_jinja_evaluate(run, name->a));
    if (scope != NULL) pf_jinja_execute(run, node->items);
    run->scope = around;
}

static void execute_one(pf_jinja_run *run, const pf_jinja_node *node)
{
    pf_jinja_value value;
    switch (node->kind) {
    case PF_JINJA_NODE_TEXT: print(run, node->text); break;
    case PF_JINJA_NODE_PRINT:
        value = pf_jinja_evaluate(run, node->a);
        print(run, pf_jinja_str(run->heap, &value));
        break;
    case PF_JINJA_NODE_IF:
        value = pf_jinja_evaluate(run, node->a);
        pf_jinja_execute(run, pf_jinja_is_true(&value) ? node->items : node->other);
        break;
    case PF_JINJA_NODE_FOR: execute_for(run, node); break;
    case PF_JINJA_NODE_SET: assign_target(run, node->a, pf_jinja_evaluate(run, node->b)); break;
    case PF_JINJA_NODE_SET_BLOCK:
        value = pf_jinja_string(capture(run, node->items));
        pf_jinja_assign(run, node->a->text, filter_block(run, node->b, value));
        break;
    case PF_JINJA_NODE_MACRO: pf_jinja_assign(run, node->text, new_macro(run, node)); break;
    case PF_JINJA_NODE_CALL_BLOCK: execute_call_block(run, node); break;
    case PF_JINJA_NODE_FILTER_BLOCK:
        value = filter_block(run, node->b, pf_jinja_string(capture(run, node->items)));
        print(run, pf_jinja_str(run->heap, &value));
        break;
    case PF_JINJA_NODE_WITH: execute_with(run, node); break;
    case PF_JINJA_NODE_BLOCK: pf_jinja_execute(run, node->items); break;
    case PF_JINJA_NODE_BREAK: run->jump = PF_JINJA_JUMP_BREAK; break;
    case PF_JINJA_NODE_CONTINUE: run->jump = PF_JINJA_JUMP_CONTINUE; break;
    default: break;
    }
}

void pf_jinja_execute(pf_jinja_run *run, const pf_jinja_node *statements)
{
    pf_jinja_heap *heap = run->heap;
    heap->depth++;
    if (heap->depth > PF_JINJA_MAX_DEPTH)
        pf_jinja_fail(heap, PF_LIMIT, "statements and calls are nested more than %d deep", PF_JINJA_MAX_DEPTH);
    for (; statements != NULL && run->jump == PF_JINJA_JUMP_NONE && pf_jinja_step(heap, 1);
         statements = statements->next) {
        heap->line = statements->line;
        execute_one(run, statements);
    }
    heap->depth--;
}

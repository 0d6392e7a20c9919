/* What a server may hold of messages, by the memory that is left. */
#include "rpc/message_budget.h"

#include <stdlib.h>
#include <string.h>

#include "proto/codec.h"
#include "proto/messages.h"
#include "tests/support/test.h"

enum { MIB = 1 << 20, NEEDED = 64 << 10 };

static size_t all_of(const pf_message_budget *room, int32_t n_codecs)
{
    return room->inbound_bytes + room->unread_bytes + room->grpc_bytes + room->unattributed_bytes / 10 * 13 +
           (size_t)n_codecs * pf_codec_arena_bytes(room->message_bytes);
}

static pf_message_budget chosen(size_t message_bytes, size_t needed_bytes, size_t memory_bytes, int32_t n_codecs)
{
    pf_message_budget room;
    pf_error error;
    if (pf_message_budget_choose(message_bytes, needed_bytes, memory_bytes, n_codecs, &room, &error) != PF_OK)
        fail_msg("%s", error.text);
    return room;
}

static void plenty_is_32_messages_each_way(void **state)
{
    (void)state;
    const size_t memories[] = { 0, (size_t)1 << 32, SIZE_MAX };
    for (size_t i = 0; i < sizeof memories / sizeof *memories; i++) {
        const pf_message_budget room = chosen(4 * MIB, NEEDED, memories[i], 1);
        assert_true(!room.is_scarce && room.message_bytes == 4 * MIB && room.grpc_bytes == 16 * MIB);
        assert_true(room.inbound_bytes == (size_t)128 * MIB && room.unread_bytes == (size_t)128 * MIB);
        assert_true(room.unattributed_bytes == (size_t)128 * MIB);
    }
}

static void a_client_has_room_for_two_messages_and_no_more_than_a_sixteenth_beyond(void **state)
{
    (void)state;
    const size_t message = 4 * MIB, plenty = (size_t)32 * MIB, least = (size_t)8 * MIB;
    assert_int_equal(pf_message_budget_of_client(message, 0), plenty);
    assert_int_equal(pf_message_budget_of_client(message, SIZE_MAX), plenty);
    assert_int_equal(pf_message_budget_of_client(message, 16 * plenty), plenty);
    assert_int_equal(pf_message_budget_of_client(message, (size_t)256 * MIB), (size_t)16 * MIB);
    assert_int_equal(pf_message_budget_of_client(message, 16 * least), least);
    assert_int_equal(pf_message_budget_of_client(message, 1), least);
}

static void it_never_has_more_than_seven_eighths(void **state)
{
    (void)state;
    const size_t messages[] = { 4096, 64 << 10, MIB, 4 * MIB, PF_MAX_MESSAGE_BYTES };
    for (size_t m = 0; m < sizeof messages / sizeof *messages; m++)
        for (int32_t n = 1; n <= 2; n++)
            for (size_t memory = (size_t)16 * MIB; memory < (size_t)2048 * MIB; memory += memory / 7 + 1) {
                const pf_message_budget room = chosen(messages[m], NEEDED, memory, n);
                assert_true(all_of(&room, n) <= memory / 8 * 7);
                assert_true(room.message_bytes <= messages[m] && room.inbound_bytes <= 32 * messages[m]);
            }
}

/* Four that are needed come in any room, and eight wait in all but the least. */
static void what_is_needed_fits_in_any(void **state)
{
    (void)state;
    const size_t needed[] = { NEEDED, 300 << 10 };
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        for (size_t memory = (size_t)(7 + 8 * i) * MIB; memory < (size_t)512 * MIB; memory += MIB / 3) {
            const pf_message_budget room = chosen(4 * MIB, needed[i], memory, 1);
            assert_true(room.message_bytes >= needed[i] && room.grpc_bytes > 0 && room.unattributed_bytes > 0);
            assert_true(room.inbound_bytes >= 4 * needed[i] && room.unread_bytes == room.inbound_bytes);
            if (room.message_bytes > needed[i]) assert_true(room.inbound_bytes / 2 >= 7 * room.message_bytes);
        }
}

static void more_memory_is_never_less_room(void **state)
{
    (void)state;
    pf_message_budget before = chosen(4 * MIB, NEEDED, (size_t)8 * MIB, 1);
    for (size_t memory = (size_t)8 * MIB; memory < (size_t)600 * MIB; memory += 4096) {
        const pf_message_budget room = chosen(4 * MIB, NEEDED, memory, 1);
        assert_true(room.message_bytes >= before.message_bytes && room.grpc_bytes >= before.grpc_bytes);
        assert_true(room.inbound_bytes >= before.inbound_bytes && room.unattributed_bytes >= before.unattributed_bytes);
        before = room;
    }
}

static void too_little_is_refused_with_what_would_do(void **state)
{
    (void)state;
    pf_message_budget room;
    pf_error error;
    assert_int_equal(pf_message_budget_choose(4 * MIB, NEEDED, 1, 1, &room, &error), PF_LIMIT);
    static const char says[] = "0 KiB of memory are left for messages beside the model, expected at least ";
    const char *said = strstr(error.text, says);
    assert_non_null(said);
    const size_t enough = strtoull(said + strlen(says), NULL, 10);
    assert_true(enough > 0);
    assert_int_equal(pf_message_budget_choose(4 * MIB, NEEDED, (enough + 1) << 10, 1, &room, &error), PF_OK);
    assert_int_equal(pf_message_budget_choose(4 * MIB, NEEDED, enough / 10 * 8 << 10, 1, &room, &error), PF_LIMIT);
    assert_int_equal(pf_message_budget_choose(4096, NEEDED, (size_t)6 * MIB, 1, &room, &error),
                     PF_OK); /* small ones need less */
    assert_true(room.message_bytes == 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plenty_is_32_messages_each_way),
        cmocka_unit_test(a_client_has_room_for_two_messages_and_no_more_than_a_sixteenth_beyond),
        cmocka_unit_test(it_never_has_more_than_seven_eighths),
        cmocka_unit_test(what_is_needed_fits_in_any),
        cmocka_unit_test(more_memory_is_never_less_room),
        cmocka_unit_test(too_little_is_refused_with_what_would_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

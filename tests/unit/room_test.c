/* What a server may hold of messages, by the memory that is left. */
#include "rpc/room.h"

#include "proto/codec.h"
#include "proto/messages.h"
#include "tests/support/test.h"

enum { MIB = 1 << 20 };

static size_t all_of(const pf_room *room, int32_t n_codecs)
{
    return room->inbound_bytes + room->unread_bytes + room->grpc_bytes +
           (size_t)n_codecs * pf_codec_arena_bytes(room->message_bytes);
}

static pf_room chosen(size_t message_bytes, size_t memory_bytes, int32_t n_codecs)
{
    pf_room room;
    pf_error error;
    assert_int_equal(pf_room_choose(message_bytes, memory_bytes, n_codecs, &room, &error), PF_OK);
    return room;
}

static void plenty_is_32_messages_each_way(void **state)
{
    (void)state;
    const size_t memories[] = { 0, (size_t)1 << 32, SIZE_MAX };
    for (size_t i = 0; i < sizeof memories / sizeof *memories; i++) {
        const pf_room room = chosen(4 * MIB, memories[i], 1);
        assert_true(room.message_bytes == 4 * MIB && room.grpc_bytes == 16 * MIB);
        assert_true(room.inbound_bytes == (size_t)128 * MIB && room.unread_bytes == (size_t)128 * MIB);
    }
}

static void it_never_has_more_than_seven_eighths(void **state)
{
    (void)state;
    const size_t messages[] = { 4096, 64 << 10, MIB, 4 * MIB, PF_MAX_MESSAGE_BYTES };
    for (size_t m = 0; m < sizeof messages / sizeof *messages; m++)
        for (int32_t n = 1; n <= 2; n++)
            for (size_t memory = (size_t)16 * MIB; memory < (size_t)2048 * MIB; memory += memory / 7 + 1) {
                const pf_room room = chosen(messages[m], memory, n);
                assert_true(all_of(&room, n) <= memory / 8 * 7);
                assert_true(room.message_bytes <= messages[m] && room.inbound_bytes <= 32 * messages[m]);
            }
}

static void two_messages_have_room_in_any(void **state)
{
    (void)state;
    for (size_t memory = (size_t)8 * MIB; memory < (size_t)512 * MIB; memory += MIB / 3) {
        const pf_room room = chosen(4 * MIB, memory, 1);
        assert_true(room.message_bytes >= 64 << 10 && room.grpc_bytes > 0);
        assert_true(room.inbound_bytes / 2 >= 2 * room.message_bytes && room.unread_bytes >= 2 * room.message_bytes);
    }
}

static void more_memory_is_never_less_room(void **state)
{
    (void)state;
    pf_room before = chosen(4 * MIB, (size_t)8 * MIB, 1);
    for (size_t memory = (size_t)8 * MIB; memory < (size_t)512 * MIB; memory += 4096) {
        const pf_room room = chosen(4 * MIB, memory, 1);
        assert_true(room.message_bytes >= before.message_bytes && room.grpc_bytes >= before.grpc_bytes);
        assert_true(room.inbound_bytes >= before.inbound_bytes && room.unread_bytes == room.inbound_bytes);
        before = room;
    }
}

static void too_little_is_refused_with_both_numbers(void **state)
{
    (void)state;
    pf_room room;
    pf_error error;
    assert_int_equal(pf_room_choose(4 * MIB, 1, 1, &room, &error), PF_LIMIT);
    assert_string_equal(error.text, "0 KiB of memory are left for messages beside the model, expected at least 7314");
    assert_int_equal(pf_room_choose(4 * MIB, (size_t)7313 << 10, 1, &room, &error), PF_LIMIT);
    assert_int_equal(pf_room_choose(4 * MIB, (size_t)7315 << 10, 1, &room, &error), PF_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plenty_is_32_messages_each_way),
        cmocka_unit_test(it_never_has_more_than_seven_eighths),
        cmocka_unit_test(two_messages_have_room_in_any),
        cmocka_unit_test(more_memory_is_never_less_room),
        cmocka_unit_test(too_little_is_refused_with_both_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

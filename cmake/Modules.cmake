# How a folder becomes a library, and which modules may include which.

# pf_may_use(MODULE [module...]): the folder MODULE is built, and may name these modules in DEPS and include their headers.
# scripts/check-includes.py reads these same lines.
macro(pf_may_use name)
    list(APPEND PF_FOLDERS ${name})
    set(PF_MAY_USE_${name} "${ARGN}")
endmacro()
pf_may_use(include)   # the public headers: what the inside shares with them it includes from there
pf_may_use(base include)
pf_may_use(gguf base)
pf_may_use(tokenizer include base gguf)
pf_may_use(jinja base gguf)
pf_may_use(grammar base)   # which texts a request allows, as a mask of tokens
pf_may_use(kernels base)
pf_may_use(kvcache base kernels)
pf_may_use(model base gguf kernels kvcache)
pf_may_use(metrics base include)
pf_may_use(proto base include)
pf_may_use(host base proto metrics)
pf_may_use(draft base model proto host)
pf_may_use(verify base kernels model proto host)   # kernels: the noise, whose steps the device takes
pf_may_use(rpc base proto host metrics)
pf_may_use(engine include base tokenizer jinja model proto host draft verify rpc metrics)
pf_may_use(sim include base model proto draft verify engine bench)   # engine: sessions by a simulated clock
pf_may_use(serve include base tokenizer jinja grammar rpc engine metrics)   # of rpc: addresses and sockets
pf_may_use(cli include base gguf tokenizer jinja model engine serve bench sim metrics)
pf_may_use(bench include base kernels model engine rpc)   # kernels: the bursts of kernels/limits; model: a pass kernel by kernel; rpc: its loopback

# pf_room(MODULE/ROOM [room...]): within a module, the files of ROOM may include headers of these rooms of the same module,
# of its own and of the module's top folder; a file at the top of the module may include any. Rooms without a line: any.
# scripts/check-includes.py reads these lines, refuses a cycle, and checks the includes; the build does not need them.
macro(pf_room name)
endmacro()
pf_room(tokenizer/unicode)
pf_room(tokenizer/pattern unicode)
pf_room(tokenizer/encode pattern unicode)
pf_room(tokenizer/decode pattern)
pf_room(tokenizer/files encode unicode)
pf_room(model/config)
pf_room(model/files config)
pf_room(model/head files)
pf_room(model/weights config files head)
pf_room(model/forward config files head weights)
pf_room(model/sampling)
pf_room(kernels/vec)
pf_room(kernels/act vec)
pf_room(kernels/attn vec)
pf_room(kernels/norm vec)
pf_room(kernels/rope vec)
pf_room(kernels/sample vec)
pf_room(kernels/limits vec)
pf_room(kernels/gemm act vec)   # the contract, the definition, and what the rooms below share
pf_room(kernels/gemm/pack gemm vec)
pf_room(kernels/gemm/float gemm gemm/pack vec)
pf_room(kernels/gemm/bf16_12 gemm gemm/pack vec)
pf_room(kernels/gemm/int gemm gemm/pack vec)
pf_room(kernels/gemm/amx gemm gemm/int gemm/pack vec)
pf_room(kernels/gemm/onednn gemm gemm/pack)
pf_room(verify/cuda)
pf_room(rpc/client)
pf_room(rpc/listener)
pf_room(rpc/server listener)

# The flags of everything that is compiled here. -ffp-contract=off: a product is fused with a sum only where the
# source says fmaf(), so that two compilers, and a kernel and its definition, give the same bits.
# pf_flags_plain: all of them but the sanitizers, for what a sanitizer build leaves uninstrumented.
add_library(pf_flags_plain INTERFACE)
target_include_directories(pf_flags_plain INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_definitions(pf_flags_plain INTERFACE _GNU_SOURCE)
target_compile_options(pf_flags_plain INTERFACE -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes
                       -Wvla -fno-math-errno -ffp-contract=off)
# snprintf into a buffer of fixed size cuts a text on purpose; gcc cannot tell that from a mistake.
target_compile_options(pf_flags_plain INTERFACE $<$<C_COMPILER_ID:GNU>:-Wno-format-truncation>)
# A constant is an enumerator here, and multiplies floats as any int does; clang 19 takes that for a mixture of two enums.
target_compile_options(pf_flags_plain INTERFACE $<$<C_COMPILER_ID:Clang>:-Wno-enum-float-conversion>)
# Fields that an initializer with names leaves out are zero. gcc takes that for intended, clang 14 does not.
target_compile_options(pf_flags_plain INTERFACE $<$<C_COMPILER_ID:Clang>:-Wno-missing-field-initializers>)
target_link_libraries(pf_flags_plain INTERFACE Threads::Threads m)
if(PF_WERROR)
    target_compile_options(pf_flags_plain INTERFACE -Werror)
endif()
if(PF_POISON)
    target_compile_definitions(pf_flags_plain INTERFACE PF_POISON)
endif()
add_library(pf_flags INTERFACE)
target_link_libraries(pf_flags INTERFACE pf_flags_plain)
if(PF_FUZZ)
    target_compile_options(pf_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(PF_SANITIZE)
    target_compile_options(pf_flags INTERFACE -fsanitize=${PF_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(pf_flags INTERFACE -fsanitize=${PF_SANITIZE})
endif()
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

# pf_module(NAME SOURCES file... [DEPS module...] [LIBS target...] [PUBLIC_LIBS target...])
#   The static library pf_NAME. LIBS are seen by this module alone; PUBLIC_LIBS also by code that includes its headers.
#   No SOURCES: a module of headers only.
function(pf_module name)
    cmake_parse_arguments(arg "" "" "SOURCES;DEPS;LIBS;PUBLIC_LIBS" ${ARGN})
    if(NOT DEFINED PF_MAY_USE_${name})
        message(FATAL_ERROR "pf_module(${name}): not in the table of cmake/Modules.cmake")
    endif()
    list(TRANSFORM arg_DEPS PREPEND pf_ OUTPUT_VARIABLE libraries)
    foreach(dep IN LISTS arg_DEPS)
        if(NOT dep IN_LIST PF_MAY_USE_${name})
            message(FATAL_ERROR "pf_module(${name}): ${name} may not use ${dep} (cmake/Modules.cmake)")
        endif()
    endforeach()
    if(NOT arg_SOURCES)
        add_library(pf_${name} INTERFACE)
        target_link_libraries(pf_${name} INTERFACE pf_flags ${libraries} ${arg_PUBLIC_LIBS})
        return()
    endif()
    add_library(pf_${name} STATIC ${arg_SOURCES})
    target_link_libraries(pf_${name} PUBLIC pf_flags ${libraries} ${arg_PUBLIC_LIBS} PRIVATE ${arg_LIBS})
    set_property(GLOBAL APPEND PROPERTY PF_MODULES ${name})
endfunction()

# pf_program(NAME SOURCES file... [DEPS module...] [LIBS target...])
#   The executable NAME, left at the top of the build directory.
function(pf_program name)
    cmake_parse_arguments(arg "" "" "SOURCES;DEPS;LIBS" ${ARGN})
    list(TRANSFORM arg_DEPS PREPEND pf_ OUTPUT_VARIABLE libraries)
    add_executable(${name} ${arg_SOURCES})
    target_link_libraries(${name} PRIVATE pf_flags ${libraries} ${arg_LIBS})
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
endfunction()

# Targets that build what one label needs and no more: quick-tests, threads-tests, ...
function(pf_label_targets name)
    foreach(label IN LISTS ARGN)
        if(NOT TARGET ${label}-tests)
            add_custom_target(${label}-tests)
        endif()
        add_dependencies(${label}-tests ${name})
    endforeach()
endfunction()

# pf_test(NAME SOURCES file... [DEPS module...] [LIBS target...] [DEFINES macro...] [ARGS argument...]
#         [TIMEOUT seconds] [LABELS label...] [OPENMP])
#   A cmocka executable, registered with ctest; it runs in the source tree. A relative source file is looked up in
#   the caller's folder, then at the root. Labels: quick (the default; what AddressSanitizer runs too), release (in the
#   release build only), threads (under ThreadSanitizer too), full (long), oracle (needs Python packages), timing (judges by
#   the wall clock: it runs alone, after the others). OPENMP: the test uses tests/support/threading.h, and is registered once
#   more as NAME_openmp, on the threads of an OpenMP runtime, with the label release.
function(pf_test name)
    if(NOT PF_TESTS)
        return()
    endif()
    cmake_parse_arguments(arg "OPENMP" "TIMEOUT" "SOURCES;DEPS;LIBS;DEFINES;ARGS;LABELS" ${ARGN})
    if(NOT arg_TIMEOUT)
        set(arg_TIMEOUT 300) # what takes seconds takes minutes under a sanitizer beside other work
    endif()
    if(NOT arg_LABELS)
        set(arg_LABELS quick)
    endif()
    set(alone OFF)
    if("timing" IN_LIST arg_LABELS)
        set(alone ON)
    endif()
    set(sources "")
    foreach(source IN LISTS arg_SOURCES)
        if(NOT IS_ABSOLUTE ${source} AND NOT EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${source})
            set(source ${CMAKE_SOURCE_DIR}/${source})
        endif()
        list(APPEND sources ${source})
    endforeach()
    list(TRANSFORM arg_DEPS PREPEND pf_ OUTPUT_VARIABLE libraries)
    add_executable(${name} ${sources})
    target_link_libraries(${name} PRIVATE pf_flags ${libraries} ${arg_LIBS} PkgConfig::CMOCKA)
    target_compile_definitions(${name} PRIVATE ${arg_DEFINES})
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    add_test(NAME ${name} COMMAND ${name} ${arg_ARGS} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "${arg_LABELS}" RUN_SERIAL ${alone})
    if(arg_OPENMP)
        add_test(NAME ${name}_openmp COMMAND ${name} ${arg_ARGS} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
        set_tests_properties(${name}_openmp PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS release RUN_SERIAL ${alone}
                             ENVIRONMENT PF_TEST_THREADING=openmp)
    endif()
    pf_label_targets(${name} ${arg_LABELS})
endfunction()

# pf_fuzz(NAME SOURCES file... [DEPS module...] [LIBS target...])
#   SOURCES define LLVMFuzzerTestOneInput. With PF_FUZZ: a libFuzzer program, for `./dev fuzz`. Without: a quick test
#   that runs the kept inputs of tests/fuzz/corpus/NAME, and simple damage of each, through it.
function(pf_fuzz name)
    cmake_parse_arguments(arg "" "" "SOURCES;DEPS;LIBS" ${ARGN})
    if(NOT PF_FUZZ)
        pf_test(${name} SOURCES ${arg_SOURCES} tests/support/fuzz_replay.c DEPS ${arg_DEPS} LIBS ${arg_LIBS}
                ARGS tests/fuzz/corpus/${name} TIMEOUT 300)
        return()
    endif()
    list(TRANSFORM arg_DEPS PREPEND pf_ OUTPUT_VARIABLE libraries)
    list(TRANSFORM arg_SOURCES PREPEND ${CMAKE_SOURCE_DIR}/ REGEX "^[^/]")
    add_executable(${name} ${arg_SOURCES})
    target_link_libraries(${name} PRIVATE pf_flags ${libraries} ${arg_LIBS})
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
endfunction()

# pf_protobuf_c(TARGET file.proto...): C made by PF_PROTOC_C at build time, as the library pf_TARGET. Its warnings are
# not ours. Include as "X.pb-c.h".
function(pf_protobuf_c target)
    set(made "")
    foreach(proto IN LISTS ARGN)
        get_filename_component(stem ${proto} NAME_WE)
        set(base ${CMAKE_CURRENT_BINARY_DIR}/${stem}.pb-c)
        add_custom_command(OUTPUT ${base}.c ${base}.h
            COMMAND ${PF_PROTOC_C} --c_out=${CMAKE_CURRENT_BINARY_DIR} --proto_path=${CMAKE_CURRENT_SOURCE_DIR}
                    ${CMAKE_CURRENT_SOURCE_DIR}/${proto}
            DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${proto} VERBATIM)
        list(APPEND made ${base}.c)
    endforeach()
    add_library(pf_${target} STATIC ${made})
    target_include_directories(pf_${target} SYSTEM PUBLIC ${CMAKE_CURRENT_BINARY_DIR})
    target_link_libraries(pf_${target} PUBLIC PkgConfig::PROTOBUF_C)
    target_compile_options(pf_${target} PRIVATE -w)
    if(PF_SANITIZE)
        target_compile_options(pf_${target} PRIVATE -fsanitize=${PF_SANITIZE} -fno-omit-frame-pointer)
    endif()
    set_property(GLOBAL APPEND PROPERTY PF_MODULES ${target})
endfunction()
